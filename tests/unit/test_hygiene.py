"""Which secrets a change may not carry out of a host, and what only looks like one."""

from __future__ import annotations

import json
import random
import string
from base64 import b64encode
from pathlib import Path

import pytest

from tasks.text.secrets import tokens
from worker.controller.hygiene import FORM, MAX_BYTES, OWN, leaks
from worker.settings.credentials import NAMED_LIKE_SECRETS

CHOICE = random.Random(7)


def some(size: int, of: str = string.ascii_letters + string.digits) -> str:
    return "".join(CHOICE.choices(of, k=size))


KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{some(64)}\n{some(64)}\n-----END RSA PRIVATE KEY-----\n"
TOKENS = [
    f"ghp_{some(36)}",
    f"github_pat_{some(82)}",
    f"glpat-{some(20)}",
    f"AKIA{some(16, string.ascii_uppercase + '234567')}",
    f"sk-proj-{some(40)}",
    f"sk-ant-api03-{some(90)}",
    f"xoxb-1234567890-{some(24)}",
    f"sk_live_{some(24)}",
    f"AIza{some(35)}",
    f"npm_{some(36)}",
    f"pypi-AgEIcHlwaS5vcmc{some(60)}",
    f"hf_{some(34)}",
    f"SG.{some(22)}.{some(43)}",
    f"dop_v1_{some(64, '0123456789abcdef')}",
    f"eyJ{some(30)}.{some(40)}.{some(40)}",
    KEY,
]


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:12])
def test_what_has_the_form_of_a_token_is_found(token: str) -> None:
    assert list(leaks({"src/a.py": f"TOKEN = '{token}'\n".encode()}, ())) == [("src/a.py", FORM)]


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        f"ghp_{'x' * 36}",
        "class='sk-folding-cube-container sk-cube-grid-wrapper'",
        "if text.startswith('-----BEGIN RSA PRIVATE KEY-----'):\n    return load(text)\n",
        "9f1c2d49f1c2d49f1c2d49f1c2d49f1c2d49f1c2d",
        "task_list-of_everything_that_is_long",
    ],
)
def test_examples_and_words_of_such_a_form_are_none(text: str) -> None:
    assert list(tokens(text)) == []


@pytest.mark.parametrize("secret", ["hunter2-x", "correct-horse-battery", 'with "quotes" 1\nand lines', KEY])
def test_the_value_of_a_secret_is_found_however_it_is_spelt(secret: str) -> None:
    raw = secret.encode()
    for spelling in (raw, json.dumps(secret).encode(), b64encode(raw)):
        found = dict(leaks({"a.txt": b"x\n" + spelling + b"\n", "b.txt": b"y"}, (secret,)))
        assert found == {"a.txt": OWN}


def test_a_name_of_a_file_may_hold_a_secret_too() -> None:
    assert dict(leaks({"notes/hunter2-x": b""}, ("hunter2-x",))) == {"notes/hunter2-x": OWN}


def test_words_numbers_and_paths_in_such_variables_are_no_secrets(tmp_path: Path) -> None:
    values = ("postgres", "true", "1234567890123", str(tmp_path), "short1")

    assert list(leaks({"a": "\n".join(values).encode()}, values)) == []


def test_values_are_looked_for_in_large_changes_too() -> None:
    large = b"x" * MAX_BYTES + b"hunter2-x"

    assert dict(leaks({"a": large, "b": f"ghp_{some(36)}".encode()}, ("hunter2-x",))) == {"a": OWN}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("GITHUB_TOKEN", True),
        ("AUTHORIZATION", True),
        ("NPM_AUTH", True),
        ("AUTHOR", False),
        ("GIT_AUTHOR_NAME", False),
    ],
)
def test_the_author_of_commits_is_no_secret(name: str, is_one: bool) -> None:
    assert bool(NAMED_LIKE_SECRETS.search(name)) is is_one
