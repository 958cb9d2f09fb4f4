"""Encrypts the secrets of endpoints, with keys of a file that Redis does not have (PLANNER_SECRET_FILE)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tasks.base.errors import PlannerError
from worker.host.regular_files import read_setting

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

MAX_BYTES = 64 * 1024
MAKE_ONE = "make one with: openssl rand -base64 32 | tr '+/' '-_' > FILE"


class NoSecrets(PlannerError):
    """Secrets cannot be encrypted or read here."""


class SecretBox:
    """Encrypts with the first key of the file, and decrypts with any of its keys."""

    def __init__(self, keys: MultiFernet) -> None:
        self._keys = keys

    @classmethod
    def open(cls, path: Path | None) -> SecretBox:
        """Read the file: a key a line, the newest first. Raises NoSecrets with a sentence, never with its content."""
        try:
            from cryptography.fernet import Fernet, MultiFernet
        except ImportError:
            raise NoSecrets("Callbacks need the package cryptography: install planner-worker[gateway].") from None
        if path is None:
            raise NoSecrets(f"PLANNER_SECRET_FILE is not set: callbacks need a file of keys; {MAKE_ONE}")
        try:
            lines = read_setting(path, MAX_BYTES).decode("ascii").split()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a text of keys, or no regular file"
            raise NoSecrets(f"PLANNER_SECRET_FILE: {path} cannot be read: {why}.") from None
        try:
            keys = [Fernet(line) for line in lines]
            return cls(MultiFernet(keys))
        except ValueError:  # no line, or one that is no key
            raise NoSecrets(f"PLANNER_SECRET_FILE: {path} needs a key on each line; {MAKE_ONE}") from None

    def seal(self, secret: str) -> str:
        """Return the encrypted secret."""
        return self._keys.encrypt(secret.encode()).decode()

    def unseal(self, sealed: str) -> str:
        """Return the decrypted secret. Raises NoSecrets if none of the keys fits."""
        from cryptography.fernet import InvalidToken

        try:
            return self._keys.decrypt(sealed).decode()
        except InvalidToken:
            raise NoSecrets("PLANNER_SECRET_FILE has not the key that encrypted this endpoint's secret.") from None
