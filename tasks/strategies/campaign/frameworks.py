"""The frameworks that campaigns know: how much each adds to the complexity, and its idioms.

Where a goal does not name one and nothing explored the repository, they are looked for in the texts that it carries.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.goal import GoalContext
from schemas.kinds.campaign import Idioms

NONE = "none"
MAX_SOURCES = 100  # Python files that are looked through
BY_README, BY_MOST, BY_SOME, BY_MANIFEST, BY_NOTHING = 0.95, 0.85, 0.75, 0.65, 0.0  # how sure that makes


@dataclass(frozen=True, slots=True)
class Framework:
    """One row; `weight` is the framework level of the complexity."""

    weight: int
    idioms: Idioms


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(  # of two that are used alike, the first one counts
    {
        "fasthtml": Framework(
            3,
            Idioms(
                required=("routes by @rt", "pages as component trees"),
                forbidden=("raw HTML in f-strings", "a Response that is made of HTML directly"),
            ),
        ),
        "fastapi": Framework(
            2,
            Idioms(
                required=("routes by @app.get, @app.post", "Pydantic models for JSON"),
                forbidden=("blocking calls in async code", "raw dicts without a schema"),
            ),
        ),
        "litestar": Framework(
            2,
            Idioms(
                required=("handlers by @get, @post", "typed responses"), forbidden=("blocking calls in async code",)
            ),
        ),
        "flask": Framework(1, Idioms(required=("routes by @app.route",))),
        "django": Framework(
            2, Idioms(required=("routes in urls.py", "views"), forbidden=("raw SQL that goes around the ORM",))
        ),
    }
)
_UNKNOWN = Framework(0, Idioms())


def framework(name: str) -> Framework:
    """Find a framework in any case; an unknown one weighs and asks for nothing."""
    return FRAMEWORKS.get(name.strip().lower(), _UNKNOWN)


def detect_framework(context: GoalContext) -> tuple[str, float]:
    """Find the framework that a goal's texts speak of, and how sure that is."""
    found = _by_readme(context) or _by_imports(context) or _by_manifest(context)
    return found or (NONE, BY_NOTHING)


_IDIOMS = re.compile(r"^##[ \t]+Framework Idioms[ \t]*$(.*?)(?=^##?[ \t]|\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_NAMES = re.compile(rf"\b({'|'.join(FRAMEWORKS)})\b", re.IGNORECASE)
_IMPORTS = re.compile(rf"^[ \t]*(?:from|import)[ \t]+({'|'.join(FRAMEWORKS)})\b", re.MULTILINE)


def _by_readme(context: GoalContext) -> tuple[str, float] | None:
    """Go by what a README says of the framework's idioms."""
    readmes = (text for path, text in context.documents.items() if _name(path).startswith("readme"))
    sections = (section[1] for text in readmes for section in _IDIOMS.finditer(text))
    return _first((name.lower() for section in sections for name in _NAMES.findall(section)), BY_README)


def _by_imports(context: GoalContext) -> tuple[str, float] | None:
    """Go by what most Python files import, else by what any does."""
    sources = [text for path, text in context.documents.items() if path.endswith(".py")][:MAX_SOURCES]
    used = Counter(name for text in sources for name in set(_IMPORTS.findall(text)))
    if not used:
        return None
    name = max(FRAMEWORKS, key=lambda each: used[each])  # the first of the largest
    return name, BY_MOST if used[name] * 2 > len(sources) else BY_SOME


def _by_manifest(context: GoalContext) -> tuple[str, float] | None:
    """Go by what the project declares that it needs."""
    texts = (text for path, text in context.manifests.items() if _name(path) == "pyproject.toml")
    return _first((name.lower() for text in texts for name in _NAMES.findall(text)), BY_MANIFEST)


def _first(names: Iterable[str], confidence: float) -> tuple[str, float] | None:
    named = Counter(names)
    found: Iterator[str] = (name for name in FRAMEWORKS if named[name])
    return next(((name, confidence) for name in found), None)


def _name(path: str) -> str:
    return path.rpartition("/")[2].lower()
