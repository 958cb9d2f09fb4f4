"""Checks whether the report of a test tool agrees with the exit code for success.

A controller makes this check before it lands a change, and the planner makes it for each receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from schemas.outcome import ReportKind, TestWord
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import Contract, ToolCategory
from tasks.toolchain.test_ids import is_aimed_at


class Figures(Protocol):
    """The counts of tests in a report."""

    @property
    def failed(self) -> int:
        """Return the number of failed tests."""

    @property
    def collected(self) -> int:
        """Return the number of tests that the run began or should have begun."""

    @property
    def files(self) -> Mapping[str, int]:
        """Return the number of collected tests in each file; empty if the report has no such numbers."""

    @property
    def ended(self) -> int:
        """Return the number of tests with an outcome."""

    @property
    def named(self) -> Mapping[str, str]:
        """Return the result of each failing test of the goal, by the name of the test."""


class Receipt(Protocol):
    """The facts of one run of a tool."""

    @property
    def tool(self) -> str:
        """Return the id of the contract."""

    @property
    def exit_code(self) -> int:
        """Return the exit code."""

    @property
    def report(self) -> str | None:
        """Return how much of the tool's report was read (`ReportKind`); None if the controller does not state that."""

    @property
    def tests(self) -> Figures | None:
        """Return the counts of tests in the report; None if there are none."""


def judged_contract(catalogue: Catalogue, tool: str, pass_codes: Iterable[int], exit_code: int) -> Contract | None:
    """Return the contract of a test tool that passed; None for another tool, or if its exit code does not pass.

    Also None if the run has more `pass_codes` than the contract: such a run only examines, and verifies nothing.
    """
    contract = catalogue.contracts.get(tool)
    if contract is None or contract.category is not ToolCategory.TEST or exit_code not in contract.pass_codes:
        return None
    return contract if set(pass_codes) <= set(contract.pass_codes) else None


def find_lack(contract: Contract, receipt: Receipt) -> str | None:
    """Return why the report does not confirm that a tool's tests passed; None if it does.

    Also None if no report is expected: the tool writes none, or the controller reads none.
    """
    report, tests = receipt.report, receipt.tests
    head = f"{receipt.tool} ended with exit code {receipt.exit_code}"
    if report is None:
        return None
    if report == ReportKind.NONE:
        return f"{head} and left no report of its tests" if contract.reports else None
    if report == ReportKind.PARTIAL or tests is None:
        told = f": {tests.ended} of {tests.collected} tests ended" if tests else ""
        return f"{head}, and its report of tests is not whole{told}"
    if tests.failed:
        return f"{head} although its report has {tests.failed} failed tests"
    if tests.ended < tests.collected:
        return f"{head} although only {tests.ended} of {tests.collected} tests ended"
    return None


def unpassed(told: Iterable[tuple[Receipt, tuple[str, ...]]], catalogue: Catalogue) -> dict[str, str]:
    """Return the failing tests of the goal that no run reports as passed, each with its word in the report.

    `told` has each receipt with its command. A test that a report does not mention has the word `absent` if the command
    is limited to paths or tests that include this test. If the command has no such limit, the word is empty.
    """
    found: dict[str, str] = {}
    passed: set[str] = set()
    for receipt, argv in told:
        if receipt.report != ReportKind.WHOLE or receipt.tests is None:
            continue
        for name, word in receipt.tests.named.items():
            if word == TestWord.PASSED:
                passed.add(name)
            elif word != TestWord.ABSENT:
                found[name] = str(word)
            elif not found.get(name):
                operands = operands_of(argv, catalogue)
                if operands and not is_aimed_at(operands, name):
                    continue  # it was aimed at other tests
                found[name] = str(word) if operands else ""
    return {name: word for name, word in found.items() if word == TestWord.FAILED or name not in passed}


def operands_of(argv: tuple[str, ...], catalogue: Catalogue) -> tuple[str, ...]:
    """Return the paths and names of tests that a command is limited to; empty if it runs everything."""
    found = catalogue.find(argv)
    if found is None:
        return ()
    contract, reading = found
    valued = dict(contract.valued)
    options = zip(reading.options, reading.options[1:], strict=False)
    aimed = (value for option, value in options if option == contract.focus_option and option in valued)
    return tuple(word for word in (*reading.positionals, *aimed) if word.strip("./"))


def describe_unpassed(found: Mapping[str, str]) -> str:
    """Return the results of the goal's failing tests as a text."""
    return "; ".join(f"the failing test {name} was not passed: {word}" for name, word in found.items())
