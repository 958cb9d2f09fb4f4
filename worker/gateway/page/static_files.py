"""The style sheet, scripts and icon of the page, at addresses that contain a hash of their content."""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Response

from worker.gateway.problems import Refusal

router = APIRouter(include_in_schema=False)

MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


class StaticFile(NamedTuple):
    """A static file; all files share the same `version`."""

    body: bytes
    media_type: str
    version: str


def _read() -> dict[str, StaticFile]:
    """Return all files. They share a version, because they refer to each other."""
    folder = files("worker.gateway.page").joinpath("static")
    bodies = {each.name: each.read_bytes() for each in sorted(folder.iterdir(), key=lambda each: each.name)}
    version = blake2b(b"".join(bodies.values()), digest_size=6).hexdigest()
    return {name: StaticFile(body, MEDIA_TYPES[name.rpartition(".")[2]], version) for name, body in bodies.items()}


FILES = _read()


def address_of(name: str) -> str:
    """Return the current address of a file."""
    return f"/static/{FILES[name].version}/{name}"


@router.get("/static/{version}/{name}")
def static_file(version: str, name: str) -> Response:
    """Return a file. A request for another version returns the current file, without caching."""
    found = FILES.get(name)
    if found is None:
        raise Refusal("not_found", "There is no such file.", 404)
    kept = {"Cache-Control": FOREVER} if version == found.version else {}
    return Response(found.body, headers=kept, media_type=found.media_type)
