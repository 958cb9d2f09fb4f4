"""Checks whether the report of a tool of tests confirms an exit code that passes.

A controller checks it before it lands a change, and the planner checks each receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from schemas.outcome import ReportKind, TestWord
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import Contract, ToolCategory
from tasks.toolchain.test_ids import is_aimed_at


class Figures(Protocol):
    """The counts of a report."""

    @property
    def failed(self) -> int:
        """Return the number of failed tests."""

    @property
    def collected(self) -> int:
        """Return the number of tests that began, or should have."""

    @property
    def files(self) -> Mapping[str, int]:
        """Return the number of collected tests by file, if the report has it."""

    @property
    def ended(self) -> int:
        """Return the number of tests with an outcome."""

    @property
    def named(self) -> Mapping[str, str]:
        """Return the results of the goal's failing tests."""


class Receipt(Protocol):
    """The facts of one run."""

    @property
    def tool(self) -> str:
        """Return the id of the contract."""

    @property
    def exit_code(self) -> int:
        """Return the exit code."""

    @property
    def report(self) -> str | None:
        """Return how complete the report is; None if the controller does not report that."""

    @property
    def tests(self) -> Figures | None:
        """Return the counts."""


def judged_contract(catalogue: Catalogue, tool: str, pass_codes: Iterable[int], exit_code: int) -> Contract | None:
    """Return the contract of a tool of tests that passed; None if its exit code has another meaning.

    A run with more `pass_codes` than those of the contract examines something, and verifies nothing.
    """
    contract = catalogue.contracts.get(tool)
    if contract is None or contract.category is not ToolCategory.TEST or exit_code not in contract.pass_codes:
        return None
    return contract if set(pass_codes) <= set(contract.pass_codes) else None


def find_lack(contract: Contract, receipt: Receipt) -> str | None:
    """Return why a tool that passed proves nothing.

    None if its report confirms it, or if no report is expected: the contract has none, or the controller does not
    report it.
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
    """Return the failing tests of the goal that no run reports as passed, each with the word of its report.

    `told` has receipts with their commands. A test without a report counts as `absent` only if a command was aimed at
    it. Otherwise its word is empty: the command may run other tests.
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
    """Return the paths and names that a command is aimed at."""
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
