"""Keeps every question to a drafter with its answer as a file, for the operator.

If the disk is full or gone, that is logged, and the drafter goes on. The number and size of files are limited, and
known secrets are removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas import codec
from tasks.rules.strategy import Consult, Drafted
from tasks.text.secrets import redact

log = logging.getLogger("planner.drafters")

MOST_FILES = 200  # the oldest go first
MOST_BYTES = 64 * 1024 * 1024  # of all files together
MAX_TEXT = 100_000  # characters of a prompt or an output


class Artifacts:
    """Keeps questions and answers under one directory."""

    def __init__(self, directory: Path, modes: Mapping[str, Any], secrets: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._modes = dict(modes)  # such as the validation mode and the schema mode
        self._secrets = secrets

    def keep(self, name: str, attempt: int, question: Consult, answer: Drafted) -> Path | None:
        """Write one file and remove the oldest beyond the limit. Return its path; None if it could not be written."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room()
            digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]
            path = self._directory / f"planning-{digest}-attempt{attempt}-{time.time_ns() // 1_000_000}.json"
            record = {
                "about": name,
                "attempt": attempt,
                "modes": self._modes,
                "prompt": self._shown(question.prompt),
                "schema": question.schema,
                "output": self._shown(answer.output),
                "error": self._shown(answer.error),
                "command": [self._shown(word) for word in answer.command],
                "stderr": self._shown(answer.stderr),
                "tokens": answer.tokens,
                "duration_ms": answer.duration_ms,
            }
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(codec.pretty(record))
            return path
        except (OSError, ValueError, TypeError) as error:
            log.warning("draft not kept", extra={"error": f"{type(error).__name__}: {error}"})
            return None

    def _make_room(self) -> None:
        """Remove the oldest files until there is room for one more."""
        found = [(file, file.stat()) for file in self._directory.glob("planning-*-attempt*-*.json")]
        found.sort(key=lambda each: each[1].st_mtime_ns)
        size = sum(marks.st_size for _, marks in found)
        for number, (file, marks) in enumerate(found):
            if len(found) - number < MOST_FILES and size <= MOST_BYTES:
                return
            file.unlink(missing_ok=True)
            size -= marks.st_size

    def _shown(self, text: Any) -> str | None:
        if text is None:
            return None
        text = text if isinstance(text, str) else codec.dumps(text).decode()
        whole = redact(text.encode(errors="replace").decode(), self._secrets)  # first: a cut may leave half a secret
        more = len(whole) - MAX_TEXT
        return whole[:MAX_TEXT] + (f"… and {more} characters more" if more > 0 else "")
