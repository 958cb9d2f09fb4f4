"""The static parts of steps, as the hash of a plan's steps has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.stored.step import TEXTS, read_texts, unpack_step

BESIDE = ">=#"  # the first character of fields that are no steps: windows, notes, texts


def facts_of(fields: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Read every step of a hash, with every field."""
    texts = read_texts(fields.get(TEXTS))
    return {step: unpack_step(raw, texts) for step, raw in fields.items() if step[0] not in BESIDE}


def facts_in(fields: Mapping[bytes, bytes]) -> dict[str, dict[str, Any]]:
    """Read every step of a hash that came from a server."""
    return facts_of({name.decode(): raw for name, raw in fields.items()})
