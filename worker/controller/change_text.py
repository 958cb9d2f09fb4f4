"""Facts of git about a delivered change: files with their risk, labels, reviewers, and a title by convention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from schemas.base import RiskLevel
from tasks.rules.risk import RISK, assess
from tasks.toolchain.files import Role, role_of
from worker.controller.forge_text import disarm
from worker.host.git import Git, GitError

SUBJECTS = 50  # of the target, which show how titles are written
MOST_FILES, MOST_OWNERS, PATH_CHARS = 100, 10, 200
OWNERS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
LABEL = "planner"
_CONVENTIONAL = re.compile(
    r"(?:build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([^)]{1,50}\))?!?: \S", re.IGNORECASE
)
_REPAIRS = re.compile(r"(?:fix|repair|correct|mend|resolve|restore|bugfix|hotfix)\w*\b", re.IGNORECASE)
_FIX = "Fix "  # which the type has already
_OWNER = re.compile(r"@[A-Za-z0-9][\w.-]*(?:/[\w.-]+)*")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a change, with its added and removed lines (None for a binary file) and its risk."""

    path: str
    added: int | None
    removed: int | None
    risk: RiskLevel
    why: str


def changed_files(git: Git, begin: str, tip: str) -> list[ChangedFile]:
    """List the files that differ between two commits."""
    found = []
    for entry in git("diff-tree", "-r", "--no-renames", "--numstat", "-z", begin, tip).split(b"\0")[:-1]:
        added, removed, path = entry.decode(errors="replace").split("\t", 2)
        new, gone = (int(each) if each.isdigit() else None for each in (added, removed))
        risk = assess((path,))
        found.append(ChangedFile(path, new, gone, risk.level, risk.why.removeprefix(path).strip()))
    return found


def describe_files(files: Sequence[ChangedFile]) -> str:
    """Write the files as a list in Markdown, the riskiest first."""
    order = list(RISK)
    ranked = sorted(files, key=lambda each: -order.index(each.risk))
    lines = [f"- {_code(each.path)}{_lines(each)}{_risk(each)}" for each in ranked[:MOST_FILES]]
    if len(files) > MOST_FILES:
        lines.append(f"- and {len(files) - MOST_FILES} more")
    return "\n".join(["**Files**", "", *lines])


def labels_of(files: Sequence[ChangedFile], more: Sequence[str]) -> list[str]:
    """Return the labels of a change: the planner's own, the highest risk of its files, and `more`."""
    order = list(RISK)
    highest = max((each.risk for each in files), key=order.index, default=RiskLevel.LOW)
    return [LABEL, f"risk:{highest.lower()}", *more]


def title_by_convention(git: Git, target: str, title: str, files: Sequence[ChangedFile]) -> str:
    """Return a title in the form that most of the target's last commits have, such as with `fix: ` in front.

    If the target has no readable commits, the title stays unchanged.
    """
    try:
        subjects = git.line("log", "--no-merges", f"--max-count={SUBJECTS}", "--format=%s", target).splitlines()
    except GitError:
        return title
    title = title.rstrip(" .")
    if _CONVENTIONAL.match(title) or not subjects:
        return title
    typed = [subject for subject in subjects if _CONVENTIONAL.match(subject)]
    if 2 * len(typed) > len(subjects):
        is_lower = sum(subject.partition(": ")[2][:1].islower() for subject in typed) * 2 > len(typed)
        kind = _type_of(title, files)
        title = title[len(_FIX) :] if kind == "fix" and title.startswith(_FIX) else title
        return f"{kind}: {_lowered(title) if is_lower else title}"
    is_lower = sum(subject[:1].islower() for subject in subjects) * 2 > len(subjects)
    return _lowered(title) if is_lower else title


def owners_of(git: Git, target: str, files: Sequence[ChangedFile]) -> list[str]:
    """Return the owners of the files by CODEOWNERS on the target branch: users, and teams with a slash, without `@`."""
    text = next((text for path in OWNERS if (text := _read(git, target, path)) is not None), "")
    rules = [line.split("#")[0].split() for line in text.splitlines() if not line.startswith("[")]
    found: list[str] = []
    for each in files:
        owners = next((rule[1:] for rule in reversed(rules) if rule and _owns(rule[0], each.path)), [])
        found += [owner[1:] for owner in owners if _OWNER.fullmatch(owner)]
    return list(dict.fromkeys(found))[:MOST_OWNERS]


def _owns(pattern: str, path: str) -> bool:
    """Return whether a pattern of CODEOWNERS matches `path`; patterns are like those of gitignore."""
    is_anchored = "/" in pattern.rstrip("/")
    pattern = pattern.strip("/") + ("/**" if pattern.endswith("/") else "")
    if not pattern:
        return True
    parts, wanted = path.split("/"), pattern.split("/")
    starts = (0,) if is_anchored else range(len(parts))
    return any(_matches(wanted, parts[start:]) for start in starts)


def _matches(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a pattern matches a path from the start; a last part `*` matches no file in a subfolder."""
    if not wanted:
        return True
    if wanted[0] == "**":
        return any(_matches(wanted[1:], parts[start:]) for start in range(len(parts) + 1))
    if not parts or not fnmatchcase(parts[0], wanted[0]):
        return False
    return len(parts) == 1 if wanted == ["*"] else _matches(wanted[1:], parts[1:])


def _read(git: Git, target: str, path: str) -> str | None:
    try:
        return git("show", f"{target}:{path}").decode(errors="replace")
    except GitError:
        return None


def _type_of(title: str, files: Sequence[ChangedFile]) -> str:
    roles = {role_of(each.path) for each in files}
    if roles == {Role.DOCUMENT}:
        return "docs"
    if roles == {Role.TEST}:
        return "test"
    return "fix" if _REPAIRS.match(title) else "feat"


def _lowered(title: str) -> str:
    """Return a title with a small first letter, unless its first word is a name such as HTTP."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _lines(each: ChangedFile) -> str:
    return "" if each.added is None else f" +{each.added} −{each.removed}"  # noqa: RUF001 - a minus sign


def _risk(each: ChangedFile) -> str:
    return f", risk {each.risk}: it {each.why}" if each.why else ""


def _code(path: str) -> str:
    shown = "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in path)[:PATH_CHARS]
    return f"`{disarm(shown)}`"
