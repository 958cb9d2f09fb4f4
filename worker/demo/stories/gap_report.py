"""A `gap_report`: what CI found and a person wished is closed, the most critical gap first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from shutil import which
from typing import TYPE_CHECKING, Any

from worker.demo.story import ADA, Answer, Commit, DemoFailed, Spec, Story, pyproject

if TYPE_CHECKING:
    from schemas.plan import PlanView
    from worker.demo.session import Session

PRICES, STOCK, RECEIPT = "till/prices.py", "till/stock.py", "till/receipt.py"
ALLOWED = ["till/*.py", RECEIPT]  # no tests: nobody may make them pass by changing them

BUG = "    return price + price * percent // 100\n"
RUFF = ("-m", "ruff", "check", "--no-cache", "--output-format", "sarif")
MOST = 5  # iterations
MAX_TITLE = 46
NOT_OURS = (
    "Another worker of this server planned it with pyright, which is not here: run the demo without PLANNER_REDIS_URL."
)

WISH = """\
---
title: Print a receipt
priority: medium
constraints:
  - Do not touch till/stock.py
---
Write till/receipt.py: a line for each price, and the total with tax.
"""
RECEIPT_TEXT = '''\
"""What the customer takes home."""

from collections.abc import Iterable

from till.prices import with_tax


def receipt(prices: Iterable[int], percent: int) -> str:
    """List `prices` in cents with their tax, and their total."""
    taxed = [with_tax(price, percent) for price in prices]
    return "\\n".join([*map(_euros, taxed), f"total {_euros(sum(taxed))}"])


def _euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"
'''

FILES = {
    "pyproject.toml": pyproject("till", "0.2.0", '[tool.ruff.lint]\nselect = ["E", "F"]\n\n'),
    "till/__init__.py": '"""What a shop sells."""\n',
    PRICES: f'''\
"""Prices in cents."""

import math


def with_tax(price: int, percent: int) -> int:
    """Add `percent` to `price`, rounded half up to a cent."""
{BUG}''',
    STOCK: '''\
"""What is left on the shelves."""

import json
import os
from collections import Counter
from collections.abc import Iterable


def left(delivered: Iterable[str], sold: Iterable[str]) -> dict[str, int]:
    """Count what was delivered and is not sold."""
    return dict(Counter(delivered) - Counter(sold))
''',
    "tests/test_prices.py": """\
from till.prices import with_tax


def test_tax_is_added():
    assert with_tax(1000, 19) == 1190


def test_a_part_of_a_cent_is_rounded():
    assert with_tax(1999, 19) == 2379


def test_half_a_cent_is_rounded_up():
    assert with_tax(50, 5) == 53
""",
    "tests/test_stock.py": """\
from till.stock import left


def test_what_is_sold_is_gone():
    assert left(["tea", "tea", "milk"], ["tea", "milk"]) == {"tea": 1}
""",
}
EDITS = {  # a word of a gap -> what closes it
    "inbox": {RECEIPT: [("", RECEIPT_TEXT)]},
    "ruff": {PRICES: [("import math\n\n", "")], STOCK: [("import json\nimport os\n", "")]},
    "pytest": {PRICES: [(BUG, "    return price + (price * percent + 50) // 100\n")]},
}


def answer(spec: Spec) -> Answer:
    """Work on the gap that came with the step."""
    if spec["mode"] != "patch":
        return Answer()
    gap = spec["input"]["gap"]
    return Answer(next(edits for word, edits in EDITS.items() if word in f"{gap['category']} {gap['description']}"))


def play(session: Session) -> None:
    """Play the story: an iteration for each gap, until ruff and pytest find nothing and no wish is left."""
    session.make_repository("A git repository with defects, and a wish", "till, commit {commit}; inbox/receipt.md")
    wish = session.place("inbox") / "receipt.md"
    wish.parent.mkdir()
    wish.write_text(WISH)
    has_pyright = bool(which("pyright") or find_spec("pyright"))
    instead = "" if has_pyright else "; in place of pyright, which is not here, a check of the syntax"
    settings = {} if has_pyright else {"PLANNER_PLANNING_GAP_CHECKS": "ruff-check,compileall"}
    session.start_fleet(f"with a scripted agent{instead}", **settings)
    tip, iterations = "main", list[str]()
    for number in count(1):
        body, passed = _run_checks(session, tip, number)
        if body is None:
            break
        gap = body["gap_report"]["gap_report"]["gaps"][0]
        if number == 1:
            session.show_page("The gap report, in the order of its gaps", "\n".join(_gaps(body)))
        if number > MOST:
            raise DemoFailed(f"After {MOST} iterations there still is a gap.")
        plan = _close(session, _title(number, gap), body, has_pyright=has_pyright)
        iterations += _iteration(plan)
        tip = session.branch
        if gap["category"] == "inbox":
            wish.unlink()  # it has come true
    session.show_page("The iterations", "\n".join(iterations))
    session.read_diff()
    session.progress.tests_passed = passed
    if not (passed and session.progress.diff):
        raise DemoFailed("Nothing is left to do, and yet ruff or pytest is not content.")


def _title(number: int, gap: Mapping[str, Any]) -> str:
    from tasks.text.fields import one_line

    return one_line(f"Iteration {number}: {gap['description']}", MAX_TITLE)


def _run_checks(session: Session, tip: str, number: int) -> tuple[dict[str, Any] | None, bool]:
    """Run ruff and pytest on `tip`; returns the goal that closes the first gap, if there is one, and whether they pass.

    The goal is made as `planner submit --from-sarif --from-junit --inbox` does.
    """
    from worker.demo import repository
    from worker.sources import goal, inbox, junit, sarif

    with session.step("ruff and pytest, as CI runs them") as step:
        checkout = session.place(f"checkout-{number}").resolve()
        log, report = session.place(f"ruff-{number}.sarif"), session.place(f"report-{number}.xml")
        repository.check_out(session.root, tip, checkout)
        repository.run_python(checkout, *RUFF, "--output-file", str(log), ".")
        suite = repository.run_tests(checkout, report)
        findings = sarif.read(log.read_bytes(), checkout)
        step.result = f"{len(findings)} findings, {suite.failed} of {suite.tests} tests fail"
    sources = goal.GapSources(findings, junit.read(report.read_bytes()), (), inbox.read(session.place("inbox")))
    context = session.context(base_sha=repository.commit_id(session.root, tip))
    body = goal.goal_of({"allowed_files": ALLOWED, "context": context}, sources, ALLOWED, checkout)
    return body, suite.passed and not findings


def _close(session: Session, title: str, body: Mapping[str, Any], *, has_pyright: bool) -> PlanView:
    """Have the first gap of a goal closed."""
    with session.step(title) as step:
        verdict = session.send(body)
        if verdict.verdict != "PLANNED":
            raise DemoFailed(f"The goal became {verdict.verdict}: {verdict.reason}")
        session.plan_id = verdict.plan_id
        try:
            plan = session.end_of_plan()
        except DemoFailed as error:
            view = session.view(session.plan_id)
            if view and not has_pyright and any("pyright" in each.verify for each in view.steps):
                raise DemoFailed(f"{error}. {NOT_OURS}") from None
            raise
        step.result = f"{plan.state}: {plan.document['iteration_id']}"
    return plan


def _gaps(body: Mapping[str, Any]) -> Iterator[str]:
    """List gaps in their order, each with the first line of its evidence."""
    for gap in body["gap_report"]["gap_report"]["gaps"]:
        yield f"{gap['priority']:<7} {gap['category']:<8} {gap['description']}"
        yield from (f"{'':16} {line}" for line in gap["evidence"].splitlines()[:1])


def _iteration(view: PlanView) -> Iterator[str]:
    """Say what an iteration was about, from its document, and how it ended."""
    plan, action = view.document, view.document["actions"][0]
    attempts = sum(step.attempt for step in view.steps)
    yield f"{plan['iteration_id']}  {plan['gap']['category']}  {view.state} after {attempts} attempts"
    change = f"{action['action_type']} {', '.join(action['target_files'])}, risk {plan['estimated_risk']}"
    yield f"  {change}: {action['description']}"
    yield from (f"  {criterion}" for criterion in plan["acceptance_criteria"][2:])


STORY = Story(
    summary="one gap an iteration, in their order; ruff, pytest and a person found nothing more.",
    repository="till",
    commits=[Commit("main", ADA, "2026-03-02", "Sell tea", FILES)],
    play=play,
    answer=answer,
    needs=("pytest", "ruff"),
)
