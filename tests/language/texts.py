"""Reads every text that a user or a contributor reads: pages, help, messages, templates, comments and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from typer.main import get_command

from worker.cli.commands.app import app

ROOT = Path(__file__).parents[2]
RINGS = ("schemas", "tasks", "worker")
CODE = "Code"  # stands for a name, a value or an expression inside a sentence
MIN_WORDS = 4  # a string with fewer words is a name or a label
MARKUP = re.compile(r"\[/?(?:b|bold|dim|red|green|yellow|cyan|link)[^\]]*\]")
BREAK = re.compile(r"</?(?:p|h\d|li|td|th|tr|dt|dd|div|section|label|option|button|summary|title|legend|figcaption)\b")
COMMENT = re.compile(r"\s*# (?! )(.*)")  # a line with more blanks is a command to copy, or a row of a table
MODULE_AREAS = (  # the area of a string literal, by the beginning of its file's path
    ("tasks/policy/advice", "advice"),
    ("tasks/", "reasons"),
    ("schemas/", "errors"),
    ("worker/gateway/page/", "page"),
    ("worker/", "messages"),
)
LISTING = frozenset({"_words", "findall", "split"})  # calls with a list of words in one literal
RAISING = frozenset({"Refusal", "BadParameter", "field_error", "FieldError", "Problem", "of", "ClickException"})


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph, table cell, message or docstring."""

    area: str
    path: str
    line: int
    words: str
    inside: str = ""  # the function or class that a docstring belongs to


def read_all() -> list[Text]:
    """Read the texts of all areas."""
    return [*_pages(), *_help(), *_modules(), *_templates(), *_comments()]


def _pages() -> Iterator[Text]:
    yield from _markdown("readme", ROOT / "README.md")
    yield from _markdown("changelog", ROOT / "CHANGELOG.md")
    for page in sorted((ROOT / "docs").glob("**/*.md")):
        yield from _markdown("decisions" if page.parent.name == "decisions" else "docs", page)


def _markdown(area: str, page: Path) -> Iterator[Text]:
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            parts = [_inline(each.type, each.content) for each in token.children or []]
            yield Text(area, page.relative_to(ROOT).as_posix(), line, _joined("".join(parts)))


def _inline(kind: str, content: str) -> str:
    if kind == "text":
        return content
    return {"code_inline": CODE, "softbreak": " ", "hardbreak": ". "}.get(kind, "")


def _help() -> Iterator[Text]:
    yield from _help_of(get_command(app), "planner")


def _help_of(command: Any, name: str) -> Iterator[Text]:
    where = f"{name} --help"
    for paragraph in re.split(r"\n\s*\n|\f", f"{command.help or ''}\n\n{command.epilog or ''}"):
        if not re.search(r"^\s*(\[b\]|\$ )", paragraph):  # commands to copy
            yield Text("help", where, 0, _joined(_plain(paragraph)))
    for parameter in command.params:
        yield Text("help", where, 0, _joined(_plain(getattr(parameter, "help", "") or "")))
    for each in getattr(command, "commands", {}).values():
        yield from _help_of(each, f"{name} {each.name}")


def _plain(text: str) -> str:
    return MARKUP.sub("", re.sub(r"\[b\].*?\[/b\]|`[^`]+`", CODE, text, flags=re.DOTALL))


def _modules() -> Iterator[Text]:
    for ring in RINGS:
        for path in sorted((ROOT / ring).rglob("*.py")):
            yield from _module(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))


def _module(path: str, tree: ast.Module) -> Iterator[Text]:
    nodes = list(ast.walk(tree))
    documented = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            doc := ast.get_docstring(node)
        ):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            documented.add(id(first.value))
            inside = "" if isinstance(node, ast.Module) else node.name
            if not (path.startswith("worker/cli/commands/") and _is_command(node)):  # `--help` has it
                for paragraph in re.split(r"\n\s*\n", doc):
                    yield Text("docstrings", path, first.lineno, _joined(_plain(paragraph)), inside)
    yield from _strings(path, nodes, documented)


def _is_command(node: ast.AST) -> bool:
    return any(
        "command" in ast.dump(each) or "callback" in ast.dump(each) for each in getattr(node, "decorator_list", ())
    )


def _strings(path: str, nodes: list[ast.AST], documented: set[int]) -> Iterator[Text]:
    area = next(area for prefix, area in MODULE_AREAS if path.startswith(prefix))
    raising = [each for each in nodes if isinstance(each, ast.Raise) or _called(each) in RAISING]
    in_errors = {id(part) for each in raising for part in ast.walk(each)}
    inner = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
    lists = {id(part) for each in nodes if _called(each) in LISTING for part in ast.walk(each)}
    for node in nodes:
        if id(node) in documented or id(node) in inner or id(node) in lists:
            continue
        for paragraph in re.split(r"\n\s*\n|(?:^|\n)- ", _literal(node)):
            if _is_prose(words := _joined(_plain(paragraph))):
                line = getattr(node, "lineno", 0)
                yield Text("errors" if id(node) in in_errors else area, path, line, words)


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _literal(node: ast.AST) -> str:
    """Return the text of a string literal, with each expression of an f-string as one word; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else CODE for each in node.values)
    return ""


def _is_prose(words: str) -> bool:
    """Whether a string literal is a sentence: most of it is words, and it is no regular expression, query or code."""
    if re.search(r"[{}<>\\^$=_]|\w\|\w|\b(?:redis\.call|KEYS|ARGV)\b|\(\?|^-", words):
        return False
    return len(re.findall(r"(?:^|\s)[A-Za-z][a-z']*(?=[\s,.;:!?)]|$)", words)) >= MIN_WORDS


def _templates() -> Iterator[Text]:
    for path in sorted((ROOT / "worker/gateway/page/templates").glob("*.html")):
        text = re.sub(r"\{%-? *(?:else|elif)\b.*?%\}", "\f", path.read_text(), flags=re.DOTALL)  # another text
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", text, flags=re.DOTALL)
        text = BREAK.sub(lambda match: f"\f{match.group()}", re.sub(r"\{\{.*?\}\}", CODE, text, flags=re.DOTALL))
        line = 1
        for block in text.split("\f"):
            words = _joined(re.sub(r"<code>.*?</code>", CODE, block, flags=re.DOTALL))
            words = _joined(re.sub(r"<[^>]*>", "", words))
            if len(words.split()) >= MIN_WORDS:
                yield Text("page", path.relative_to(ROOT).as_posix(), line, words)
            line += block.count("\n")


def _comments() -> Iterator[Text]:
    line = 0
    lines: list[str] = []
    for number, each in enumerate([*(ROOT / "compose.yaml").read_text().splitlines(), ""], 1):
        comment = match[1] if (match := COMMENT.match(each)) else ""
        if comment:
            line, lines = line or number, [*lines, comment]
        elif lines:
            yield Text("compose", "compose.yaml", line, _joined(" ".join(lines)))
            line, lines = 0, []


@cache
def _joined(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
