"""The JSON Schema of an answer that names places: files, lines and reasons."""

from __future__ import annotations

from typing import Any

LINES = r"\d{1,7}(-\d{1,7})?"

PLACES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["files", "summary"],
    "properties": {
        "files": {
            "type": "array",
            "maxItems": 10,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "why"],
                "properties": {
                    "path": {"type": "string", "maxLength": 512},
                    "lines": {"type": "string", "pattern": f"^{LINES}$"},
                    "why": {"type": "string", "maxLength": 200},
                },
            },
        },
        "summary": {"type": "string"},
    },
}
