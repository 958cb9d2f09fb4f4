"""A `task`: a bug in a real repository, from the tests that fail to the tests that pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.demo.story import ADA, Answer, Commit, Spec, Story, edited, pyproject

if TYPE_CHECKING:
    from worker.demo.session import Session

SOURCE = "billing/renewals.py"
OUTSIDE = "../deploy/.env"  # what no goal may ask for

BUG = "    return start.replace(year=year, month=month + 1)\n"
IMPORT = "from datetime import date\n"
GUESS = [(BUG, "    return start.replace(year=year, month=month + 1, day=min(start.day, 28))\n")]
FIX = [
    (BUG, """\
    day = min(start.day, monthrange(year, month + 1)[1])
    return start.replace(year=year, month=month + 1, day=day)
"""),
    (IMPORT, f"from calendar import monthrange\n{IMPORT}"),
]  # fmt: skip

FILES = {
    "pyproject.toml": pyproject("billing", "1.4.0"),
    "billing/__init__.py": '"""What subscribers pay, and when."""\n',
    "billing/prices.py": '''\
"""Prices in cents."""


def with_discount(price: int, percent: int) -> int:
    """Take `percent` off `price`, rounded half up to a cent."""
    return price - (price * percent + 50) // 100
''',
    SOURCE: f'''\
"""When a subscription renews."""

{IMPORT}

def renewal(start: date, months: int = 1) -> date:
    """Return the day on which a subscription that began on `start` renews after `months` months.

    Where that month is too short, it renews on the last day of the month.
    """
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
{BUG}''',
    "tests/test_prices.py": """\
from billing.prices import with_discount


def test_a_discount_is_taken_off():
    assert with_discount(2000, 25) == 1500


def test_half_a_cent_is_rounded_for_the_customer():
    assert with_discount(1990, 5) == 1890
""",
    "tests/test_renewals.py": """\
from datetime import date

from billing.renewals import renewal


def test_renews_on_the_same_day_of_the_next_month():
    assert renewal(date(2026, 3, 15)) == date(2026, 4, 15)


def test_renews_across_the_end_of_the_year():
    assert renewal(date(2026, 11, 30), months=2) == date(2027, 1, 30)


def test_renews_on_the_last_day_of_february():
    assert renewal(date(2026, 1, 31)) == date(2026, 2, 28)


def test_renews_on_the_29th_in_a_leap_year():
    assert renewal(date(2028, 1, 31)) == date(2028, 2, 29)


def test_keeps_the_31st_where_the_month_has_one():
    assert renewal(date(2026, 1, 31), months=2) == date(2026, 3, 31)
""",
}


def answer(spec: Spec) -> Answer:
    """Take the obvious for the right at first, as an LLM may, and care once a verification has failed."""
    source = Path(SOURCE).read_text()
    if spec["mode"] != "patch":
        return Answer(report={"output": _observation(spec, source)}, characters=2 * len(source))
    changes = FIX if spec["context"]["previous_failure"] else GUESS
    return Answer({SOURCE: changes}, {"patch_cycles": 1}, len(source) + len(edited(source, changes)))


def _observation(spec: Spec, source: str) -> str:
    if spec["controller_task_spec"]["type"] == "EXPLORE":
        return f"{SOURCE}:{source.splitlines().index(BUG.rstrip()) + 1}: {BUG.strip().removeprefix('return ')}"
    failing = len(spec["context"]["failing_tests"])
    return f"{failing} tests fail: date.replace keeps day 31, also in February"


def play(session: Session) -> None:
    """Play the story."""
    session.make_repository("A git repository with a bug", f"{SOURCE}, commit {{commit}}")
    session.start_fleet("with a scripted agent that guesses first")
    report = session.place("report.xml")
    session.run_failing_tests(report)
    body = _goal(session, report)
    session.submit("A goal from the JUnit report", body)
    session.be_rejected(f"The same goal, with {OUTSIDE}", {**body, "allowed_files": [SOURCE, OUTSIDE]})
    session.follow()
    session.check_branch()


def _goal(session: Session, report: Path) -> dict[str, Any]:
    """Make the goal as `planner submit --from-junit` does; what may be changed is always said by a person."""
    from worker.sources import goal, junit  # here, so that the agent starts without them

    options = {"allowed_files": [SOURCE], **session.context()}
    return goal.with_options(goal.with_report({}, junit.read(report.read_bytes())), options)


STORY = Story(
    summary="real tests stopped a wrong patch, a right one landed.",
    repository="billing",
    commits=[Commit("main", ADA, "2026-03-02", "Renew subscriptions", FILES)],
    play=play,
    answer=answer,
)
