"""Finds the definitions of functions, classes and constants in the sources of a goal, without running any.

Python is parsed. In other languages, lines that begin a definition are searched, which can be wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any
from warnings import catch_warnings

from schemas import codec
from tasks.toolchain.files import name_of
from worker.sources.checkout import Checkout

MAX_DEFINITIONS = 32_000  # bytes of all, as JSON
MAX_READ, MAX_TEXT = 100, 1_000_000  # files, and characters of all
MOST_OF_FILE = 500
MAX_NAME = 200

_JS = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+|abstract[ \t]+|async[ \t]+)*"
    r"(?:(?:function\*?|class|interface|enum|type|namespace)[ \t]+([\w$]+)"
    r"|(?:const|let|var)[ \t]+([\w$]+)[ \t]*=[ \t]*(?:async[ \t]*)?(?:function\b|class\b|\(|[\w$]+[ \t]*=>))",
    re.MULTILINE,
)
_GO = re.compile(r"^(?:func[ \t]+(?:\([^)\n]{0,200}\)[ \t]*)?|type[ \t]+)(\w+)", re.MULTILINE)
_RUST = re.compile(
    r"^[ \t]*(?:pub(?:\([\w: ]+\))?[ \t]+)?(?:const[ \t]+|async[ \t]+|unsafe[ \t]+|default[ \t]+)*"
    r"(?:fn|struct|enum|trait|union|type|mod|macro_rules!)[ \t]+(\w+)",
    re.MULTILINE,
)
_CPP = re.compile(
    r"^[ \t]*(?:class|struct|enum(?:[ \t]+class)?|union|namespace)[ \t]+(\w+)[^;\n]*$"
    r"|^(?!return\b|else\b|typedef\b)[A-Za-z_][\w:<>,*& \t]*?\b([A-Za-z_~][\w:]*)\([^;\n]*$",
    re.MULTILINE,
)
_BEGINNINGS = {
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "tsx", "mts", "cts"), _JS),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx"), _CPP),
}

_READ = frozenset(("py", "pyi", *_BEGINNINGS))
_WORD = re.compile(r"[\w$]+")

Found = dict[str, Any]  # as `schemas.goal.Definition` has it


def read_definitions(
    checkout: Checkout, files: Mapping[str, str], paths: Iterable[str], told: Iterable[str], room: int
) -> dict[str, list[Found]]:
    """Return the definitions in the first of `paths` that can be read; `files` has the id of each content.

    The result has at most `room` bytes of JSON, and fits into a goal. Names that the texts `told` contain come first.
    """
    read = (path for path in dict.fromkeys(paths) if path in files and _ending(path) in _READ)
    texts = checkout.texts({path: files[path] for path in islice(read, MAX_READ)})
    words = frozenset(word for text in told for word in _WORD.findall(text))
    return find_definitions(texts, words, min(room, MAX_DEFINITIONS))


def find_definitions(texts: Mapping[str, str], words: Collection[str], room: int) -> dict[str, list[Found]]:
    """Return the definitions by file in at most `room` bytes of JSON; those with a name in `words` have priority."""
    left = MAX_TEXT
    known: dict[str, list[Found]] = {}
    for path, text in texts.items():
        if (left := left - len(text)) < 0:
            break
        known[path] = list(islice(_defined(path, text), MOST_OF_FILE))
    found: dict[str, list[Found]] = {}
    named = {path: [each for each in some if each["name"].rpartition(".")[2] in words] for path, some in known.items()}
    for path, some in (*named.items(), *known.items()):
        size = len(codec.dumps({path: some})) - (len(codec.dumps({path: found[path]})) if path in found else 0)
        if some and size <= room:
            room -= size
            found[path] = some
    return found


def _ending(path: str) -> str:
    return name_of(path).rpartition(".")[2].lower()


def _defined(path: str, text: str) -> Iterator[Found]:
    pattern = _BEGINNINGS.get(_ending(path))
    if pattern is None:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError), catch_warnings(action="ignore"):
            yield from _of_python(ast.parse(text).body, "")
        return
    line, at = 1, 0
    for hit in pattern.finditer(text):
        begin = hit.start(hit.lastindex or 0)
        line, at = line + text.count("\n", at, begin), begin
        if len(name := hit[hit.lastindex or 0]) <= MAX_NAME:
            yield {"name": name.replace("::", "."), "line": line}


def _of_python(body: Iterable[ast.stmt], owner: str) -> Iterator[Found]:
    """Yield the functions, classes and methods (as `Class.method`) in `body`, and the constants of a module."""
    for node in body:
        names: Iterable[str] = ()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (node.name,)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not owner:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (each.id for each in targets if isinstance(each, ast.Name))
        for name in names:
            if len(owner) + len(name) <= MAX_NAME:
                yield {"name": owner + name, "line": node.lineno, "end_line": node.end_lineno or node.lineno}
        if isinstance(node, ast.ClassDef):
            yield from _of_python(node.body, f"{owner}{node.name}.")
