"""One arrow: schemas <- tasks <- worker. Decisions know no clock, no chance and no machine."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE_PACKAGES = {"pydantic", "pydantic_core", "orjson", "msgspec"}
ALLOWED = {
    "schemas": {"schemas", *PURE_PACKAGES},
    "tasks": {"schemas", "tasks", *PURE_PACKAGES},
}
MACHINE = {  # parts of the standard library that know the world outside
    *("asyncio", "concurrent", "contextvars", "ctypes", "fcntl", "getpass", "glob", "http", "logging", "mmap"),
    *("multiprocessing", "os", "pathlib", "platform", "queue", "random", "resource", "sched", "secrets", "select"),
    *("selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "sys", "tempfile"),
    *("threading", "time", "urllib", "uuid", "zoneinfo", "_thread", "builtins", "io", "runpy", "code"),
}
CLOCKS = {"now", "utcnow", "today"}
CALLS = {"open", "input", "exec", "eval", "__import__", "print", "breakpoint"}
MODULE_NAMES = {"tasks/strategies/registry.py": {"importlib"}}  # discovery finds the strategies by their names


def violations(source: str, ring: str, name: str = "sample.py") -> list[str]:
    """Say what in `source`, a module of `ring`, points the wrong way."""
    found = []
    for node in ast.walk(ast.parse(source)):
        found += [f"{name}:{line} imports {module}" for module, line in _imports(node) if not _fits(module, ring, name)]
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and _last_name(node.value) in ("datetime", "date"):
            found.append(f"{name}:{node.lineno} reads the clock by .{node.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            found.append(f"{name}:{node.lineno} calls {node.func.id}")
    return found


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield ("." * node.level + (node.module or "")), node.lineno


def _fits(module: str, ring: str, name: str) -> bool:
    top = module.partition(".")[0]
    if top in ALLOWED[ring] or module == "urllib.parse":
        return True
    return top in sys.stdlib_module_names and top not in MACHINE and (top != "importlib" or top in _names(name))


def _names(name: str) -> set[str]:
    return MODULE_NAMES.get(name, set())


def modules(ring: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / ring).rglob("*.py"))


@pytest.mark.parametrize("ring", ["schemas", "tasks"])
def test_every_arrow_points_inwards(ring: str) -> None:
    found = [line for name in modules(ring) for line in violations((ROOT / name).read_text(), ring, name)]

    assert found == []


@pytest.mark.parametrize("ring", ["schemas", "tasks"])
def test_the_walk_sees_every_module(ring: str) -> None:
    assert len(modules(ring)) > 10


@pytest.mark.parametrize(
    ("ring", "source"),
    [
        ("schemas", "import tasks"),
        ("schemas", "from tasks.plan.snapshot import Snapshot"),
        ("schemas", "from worker import ids"),
        ("tasks", "import worker.engine.engine"),
        ("tasks", "from redis import Redis"),
        ("tasks", "import celery"),
        ("tasks", "import os"),
        ("tasks", "import os.path"),
        ("tasks", "from time import time"),
        ("tasks", "import random as r"),
        ("tasks", "import socket, re"),
        ("tasks", "from urllib.request import urlopen"),
        ("tasks", "def f():\n    import subprocess"),
        ("tasks", "from threading import Lock"),
        ("tasks", "import importlib"),
        ("tasks", "from . import view"),
        ("tasks", "from datetime import datetime\nx = datetime.now()"),
        ("tasks", "import datetime\nx = datetime.date.today()"),
        ("schemas", "from datetime import datetime\nx = datetime.utcnow()"),
        ("tasks", "open('x')"),
        ("tasks", "import nobody_knows_this"),
    ],
)
def test_the_walk_finds_a_wrong_arrow(ring: str, source: str) -> None:
    assert len(violations(source, ring)) == 1


@pytest.mark.parametrize(
    ("ring", "source"),
    [
        ("schemas", "import re\nfrom datetime import datetime\nfrom pydantic import BaseModel"),
        ("tasks", "from schemas import codec\nfrom tasks.plan.snapshot import Snapshot\nimport hashlib"),
        ("tasks", "def decide(now: int) -> int:\n    return view.now + now"),
    ],
)
def test_the_walk_lets_what_is_right_pass(ring: str, source: str) -> None:
    assert violations(source, ring) == []
