"""The style sheet, scripts and icon of the page, under addresses that change with what they are."""

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
    """A file, and the version of all of them."""

    body: bytes
    media_type: str
    version: str


def _read() -> dict[str, StaticFile]:
    """Read all files; they share a version, so that what one of them names beside itself is kept, too."""
    folder = files("worker.gateway.page").joinpath("static")
    bodies = {each.name: each.read_bytes() for each in sorted(folder.iterdir(), key=lambda each: each.name)}
    version = blake2b(b"".join(bodies.values()), digest_size=6).hexdigest()
    return {name: StaticFile(body, MEDIA_TYPES[name.rpartition(".")[2]], version) for name, body in bodies.items()}


FILES = _read()


def address_of(name: str) -> str:
    """Return the address of a file as it is now."""
    return f"/static/{FILES[name].version}/{name}"


@router.get("/static/{version}/{name}")
def static_file(version: str, name: str) -> Response:
    """Answer with a file; one of another version is answered as it is now, and not kept."""
    found = FILES.get(name)
    if found is None:
        raise Refusal("not_found", "There is no such file.", 404)
    kept = {"Cache-Control": FOREVER} if version == found.version else {}
    return Response(found.body, headers=kept, media_type=found.media_type)
