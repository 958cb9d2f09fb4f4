"""An account without a name gives orders too."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from worker.host.account import own_name


def test_an_account_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> Any:
        raise KeyError

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    assert own_name() == f"uid {os.getuid()}"
