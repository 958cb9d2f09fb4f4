"""The frameworks that campaigns know: how much each adds to the complexity, and its idioms (seed 003)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.campaign import Idioms

NONE = "none"


@dataclass(frozen=True, slots=True)
class Framework:
    """One row; `weight` is the framework level of the complexity."""

    weight: int
    idioms: Idioms


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
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
        "django": Framework(
            2, Idioms(required=("routes in urls.py", "views"), forbidden=("raw SQL that goes around the ORM",))
        ),
        "flask": Framework(1, Idioms(required=("routes by @app.route",))),
    }
)
_UNKNOWN = Framework(0, Idioms())


def framework(name: str) -> Framework:
    """Find a framework, in whatever case it is written; one that nobody knows weighs nothing and asks for nothing."""
    return FRAMEWORKS.get(name.strip().lower(), _UNKNOWN)
