"""A `gap_report`: closes gaps that CI found and a person wished, the most critical first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from shutil import which
from typing import TYPE_CHECKING, Any

from worker.demo.story import Answer, DemoFailed, Spec, Story

if TYPE_CHECKING:
    from schemas.plan import PlanView
    from worker.demo.session import Session

RUFF = ("-m", "ruff", "check", "--no-cache", "--output-format", "sarif")
MOST = 5  # iterations
MAX_TITLE = 46
NOT_OURS = (
    "Another worker of this server planned it with pyright, which is not here: run the demo without PLANNER_REDIS_URL."
)


def answer(spec: Spec) -> Answer:
    """Return the edit that closes the step's gap: its name is a word of the gap. Other steps change nothing."""
    if spec["mode"] != "patch":
        return Answer()
    gap = spec["input"]["gap"]
    return Answer(next(edit for word, edit in STORY.edits.items() if word in f"{gap['category']} {gap['description']}"))


def play(session: Session) -> None:
    """Play the story: an iteration for each gap, until ruff and pytest find nothing and no wish is left."""
    from tasks.text.fields import one_line

    session.make_repository("A git repository with defects, and a wish", "till, commit {commit}; inbox/receipt.md")
    wish = session.place("inbox") / "receipt.md"
    wish.parent.mkdir()
    wish.write_text(STORY.data["wish"])
    has_pyright = bool(which("pyright") or find_spec("pyright"))
    instead = "" if has_pyright else "; in place of pyright, which is not here, a check of the syntax"
    settings = {} if has_pyright else {"PLANNER_PLANNING_GAP_CHECKS": "ruff-check,compileall"}
    session.start_fleet(f"with a scripted agent{instead}", **settings)
    tip, iterations = "main", list[str]()
    for number in count(1):
        body, passed = _run_checks(session, tip, number)
        if body is None:
            break
        gaps = body["gap_report"]["gap_report"]["gaps"]
        if number == 1:
            session.show_page("The gap report, in the order of its gaps", "\n".join(_report(gaps)))
        if number > MOST:
            raise DemoFailed(f"After {MOST} iterations there still is a gap.")
        title = one_line(f"Iteration {number}: {gaps[0]['description']}", MAX_TITLE)
        iterations += _iteration(_close(session, title, body, has_pyright=has_pyright))
        tip = session.branch
        if gaps[0]["category"] == "inbox":
            wish.unlink()  # it has come true
    session.show_page("The iterations", "\n".join(iterations))
    session.read_diff()
    session.progress.tests_passed = passed
    if not (passed and session.progress.diff):
        raise DemoFailed("Nothing is left to do, and yet ruff or pytest is not content.")


def _run_checks(session: Session, tip: str, number: int) -> tuple[dict[str, Any] | None, bool]:
    """Run ruff and pytest on `tip`. Returns the goal for the first gap, if there is one, and whether both pass.

    The goal is made as by `planner submit --from-sarif --from-junit --inbox`.
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
    allowed = STORY.data["allowed_files"]
    context = session.context(base_sha=repository.commit_id(session.root, tip))
    body = goal.goal_of({"allowed_files": allowed, "context": context}, sources, allowed, checkout)
    return body, suite.passed and not findings


def _close(session: Session, title: str, body: Mapping[str, Any], *, has_pyright: bool) -> PlanView:
    """Send a goal, and wait until its plan has closed the first gap. Raises DemoFailed if the plan does not."""
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


def _report(gaps: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each gap, and after it the first line of the gap's evidence."""
    for gap in gaps:
        yield f"{gap['priority']:<7} {gap['category']:<8} {gap['description']}"
        yield from (f"{'':16} {line}" for line in gap["evidence"].splitlines()[:1])


def _iteration(view: PlanView) -> Iterator[str]:
    """Yield lines about an iteration: its gap, its result, its change, and further criteria."""
    plan, action = view.document, view.document["actions"][0]
    attempts = sum(step.attempt for step in view.steps)
    yield f"{plan['iteration_id']}  {plan['gap']['category']}  {view.state} after {attempts} attempts"
    change = f"{action['action_type']} {', '.join(action['target_files'])}, risk {plan['estimated_risk']}"
    yield f"  {change}: {action['description']}"
    yield from (f"  {criterion}" for criterion in plan["acceptance_criteria"][2:])


STORY = Story("gap_report", play, answer)
