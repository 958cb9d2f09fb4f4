"""Tests that are written before their code: an import of code to come passes, any other failed import does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.collecting import TOOL, errors_in, unexpected
from tests.support.plans import Running, a_report, a_step
from worker.controller.wire import tool_failure

TO_COME = ("src/shop/tax.py", "src/shop/rates/__init__.py", "src/shop/rates/eu.py")
NO_MODULE, NO_NAME = "E   ModuleNotFoundError: No module named", "E   ImportError: cannot import name"


@pytest.mark.parametrize(
    ("line", "is_expected"),
    [
        (f"{NO_MODULE} 'shop.tax'", True),
        (f"{NO_MODULE} 'shop'", True),  # the package comes with its module
        (f"{NO_MODULE} 'src.shop.tax'", True),
        (f"{NO_MODULE} 'shop.rates.eu'", True),
        (f"{NO_MODULE} 'shop.taxes'", False),
        (f"{NO_MODULE} 'shop.tax.net'", False),  # a module is no package
        (f"{NO_MODULE} 'yaml'", False),
        (f"{NO_MODULE} 'tests.fixtures.money'", False),
        (f"{NO_NAME} 'net' from 'shop.tax' (/clone/src/shop/tax.py)", True),
        (f"{NO_NAME} 'tax' from 'shop' (/clone/src/shop/__init__.py)", True),
        (f"{NO_NAME} 'eu' from partially initialized module 'shop.rates' (most likely due to a circular import)", True),
        (f"{NO_NAME} 'net' from 'shop.cart' (/clone/src/shop/cart.py)", False),
        (f"{NO_NAME} 'nett' from 'os' (/usr/lib/python3.11/os.py)", False),
        ("E   NameError: name 'net' is not defined", True),  # no import
        ("E   AttributeError: module 'shop.tax' has no attribute 'net'", True),
        ("ModuleNotFoundError: No module named yaml", False),
    ],
)
def test_an_import_may_fail_if_the_campaign_brings_its_module(line: str, *, is_expected: bool) -> None:
    assert (unexpected(line, TO_COME) == []) == is_expected


def collected(exit_code: int, trace: str | None = None, attempt: int | None = None) -> Any:
    evidence = None if trace is None else {"category": "IMPORT_ERROR", "stack_trace_head": trace}
    receipts = [{"tool": "py-compile", "exit_code": 0}, {"tool": TOOL, "exit_code": exit_code}]
    return a_report("a", attempt, touched_files=["tests/test_tax.py"], verify=receipts, failure_evidence=evidence)


def running() -> Running:
    match = CATALOGUE.match
    collects = CATALOGUE.as_ran(match("pytest --collect-only -q tests/test_tax.py"))
    step = a_step("a", files=["tests/test_tax.py"], tools=(match("python -m py_compile tests/test_tax.py"), collects))
    return Running(step.model_copy(update={"collects": TO_COME}))


@pytest.mark.parametrize(
    ("exit_code", "trace"),
    [(0, None), (2, None), (2, f"{NO_MODULE} 'shop.tax'"), (2, f"{NO_MODULE} 'shop'\n{NO_NAME} 'net' from 'shop.tax'")],
)
def test_a_step_whose_imports_are_still_to_come_is_done(exit_code: int, trace: str | None) -> None:
    plan = running()

    plan.report(collected(exit_code, trace))

    assert plan.states["a"] == "DONE"


def test_an_import_that_nothing_brings_is_an_import_error_that_names_it() -> None:
    plan = running()

    plan.report(collected(2, f"{NO_MODULE} 'shop.tax'\n{NO_MODULE} 'shop.taxes'"))

    found = plan.steps["a"].previous or {}
    assert (found["category"], found["trace"]) == (
        "IMPORT_ERROR",
        "ModuleNotFoundError: No module named 'shop.taxes'",
    )
    assert "no task of the campaign brings it" in found["suggestion"]
    plan.report(a_report("a-dependencies"))
    plan.report(collected(2, f"{NO_MODULE} 'shop.tax'", attempt=2))
    assert plan.states["a"] == "DONE"


def test_pytest_prints_each_failed_import_and_ends_with_the_code_that_passes(tmp_path: Path) -> None:
    for name, text in {"tax": "from shop.tax import net", "os": "from os import nett", "name": "foo"}.items():
        (tmp_path / f"test_{name}.py").write_text(text + "\n")
    tool = CATALOGUE.as_ran(CATALOGUE.match("pytest --collect-only -q test_name.py test_os.py test_tax.py"))

    done = subprocess.run([sys.executable, "-m", *tool.argv], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode in tool.pass_codes
    names = [line.split()[1] for line in errors_in(done.stdout)]
    assert names == ["NameError:", "ImportError:", "ModuleNotFoundError:"]
    trace = tool_failure(TOOL, done.stdout, timed_out=False).evidence.stack_trace_head or ""
    assert [line.partition(" (")[0] for line in unexpected(trace, TO_COME)] == [
        "ImportError: cannot import name 'nett' from 'os'"
    ]
