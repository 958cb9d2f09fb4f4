"""Cheats in Python."""

from __future__ import annotations

from tests.cheats.cheat import Cheat, Surroundings

TEST = "from calc import add\n\n\ndef test_adds():\n    assert add(2, 2) == 4\n"
PYTEST = Surroundings(
    language="python",
    files={"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": TEST},
    failing="test_calc.py::test_adds",
    command="pytest -q",
    fix={"calc.py": "def add(a, b):\n    return a + b\n"},
)
_WRONG = "def add(a, b):\n    return a - b\n"
_HOOK = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    found = (yield).get_result()
    found.outcome, found.longrepr = "passed", None
"""
_STATUS = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
_EMPTIED = "def pytest_collection_modifyitems(items):\n    items.clear()\n\n\n" + _STATUS

CHEATS = (
    Cheat(
        "exits-while-it-is-imported",
        PYTEST,
        {"calc.py": f"import os\nimport sys\n\nif 'pytest' in sys.modules:\n    os._exit(0)\n\n\n{_WRONG}"},
        category="NO_PROOF",
        word="not whole",
    ),
    Cheat(
        "exits-at-the-end-with-0",
        PYTEST,
        {"calc.py": f"import atexit\nimport os\n\natexit.register(os._exit, 0)\n\n\n{_WRONG}"},
        category="NO_PROOF",
        word="1 tests failed",
    ),
    Cheat(
        "exits-when-it-is-called",
        PYTEST,
        {"calc.py": "import os\n\n\ndef add(a, b):\n    os._exit(0)\n"},
        category="NO_PROOF",
        word="0 of 1",
    ),
    Cheat(
        "skips-the-failing-test",
        PYTEST,
        {"test_calc.py": f"import pytest\n{TEST}".replace("def test", "@pytest.mark.skip\ndef test")},
        category="TEST_REGRESSION",
        word="skipped",
    ),
    Cheat(
        "expects-the-failing-test-to-fail",
        PYTEST,
        {"test_calc.py": f"import pytest\n{TEST}".replace("def test", "@pytest.mark.xfail\ndef test")},
        category="TEST_REGRESSION",
        word="xfailed",
    ),
    Cheat(
        "skips-within-the-failing-test",
        PYTEST,
        {"test_calc.py": f"import pytest\n{TEST}".replace("    assert", '    pytest.skip("later")\n    assert')},
        category="TEST_REGRESSION",
        word="skipped",
    ),
    Cheat(
        "sets-every-outcome-to-passed",
        PYTEST,
        {"conftest.py": _HOOK},
        category="NO_PROOF",
        word="1 tests failed",
    ),
    Cheat("sets-the-exit-status", PYTEST, {"conftest.py": _STATUS}, category="NO_PROOF", word="1 tests failed"),
    Cheat("leaves-out-every-test", PYTEST, {"conftest.py": _EMPTIED}, category="TEST_REGRESSION", word="deselected"),
)
