"""The message of a commit on a plan's branch, in a person's words: the change, and the tests that it fixed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worker.controller.forge_text import disarm
from worker.controller.wire import Spec

MAX_SUBJECT = 72
MAX_LINE = 200
SHOWN_TESTS = 20
_LEAD = re.compile(r"(?P<lead>[A-Z][^:\n]{1,60}): (?P<goal>\S.*)", re.DOTALL)  # of a template: `Fix it: {goal}`
_COUNT = re.compile(r"\s*(?:\(\d+ of \d+\)|: part \d+ of \d+)")
_KEPT = ("Add tests for", "Document", "Add the tests for")  # leads that add information to the goal
_VERBS = frozenset(  # first words of goals
    """
    add allow apply avoid build bump change check clean convert correct create cut delete deny describe
    disable document drop enable ensure exclude explain expose extend extract fix format give handle hide
    implement improve include increase inline introduce invert keep let limit load lower make measure mend
    merge migrate move name optimise optimize parse pass pin prevent print raise read record redirect reduce
    refactor refuse reject remove rename repair replace report require reset resolve restore retry return
    rework rewrite round run send set show simplify skip sort speed split start stop store strip support take
    teach test treat trim turn undo unify update upgrade use validate verify wait warn wrap write
    """.split()  # noqa: SIM905
)


def message(spec: Spec) -> str:
    """Return the commit message of the attempt `spec`; its last lines name plan, step and attempt."""
    trailers = f"Plan: {spec.plan_id}\nStep: {spec.step_id}\nAttempt: {spec.attempt}\n"
    return "\n\n".join((subject(spec), *_body(spec), trailers))


def subject(spec: Spec) -> str:
    """Return the change of a step in one line: the goal's words if a template contains them, else the step's title."""
    found = _LEAD.match(spec.intent)
    title = _COUNT.sub("", " ".join(spec.title.split()))
    text = _of_goal(found["lead"], " ".join(found["goal"].split())) if found else title
    return _cut(disarm(text or spec.step_id))


def _of_goal(lead: str, goal: str) -> str:
    goal = goal.rstrip(" .")
    if lead in _KEPT:
        return f"{lead}: {goal}"
    if goal.partition(" ")[0].casefold() in _VERBS:
        return goal[0].upper() + goal[1:]
    return f"{'Fix' if lead.startswith('Fix') else 'Change'}: {goal}"


def _cut(text: str) -> str:
    """Return a line that is short enough; it ends after a whole word unless this would halve it."""
    if len(text) <= MAX_SUBJECT:
        return text
    whole = text[: MAX_SUBJECT + 1].rpartition(" ")[0]
    return (whole if len(whole) > MAX_SUBJECT // 2 else text[:MAX_SUBJECT]).rstrip(" ,;:")


def _body(spec: Spec) -> Iterator[str]:
    """Yield the tests that failed before and pass now, and the origin of the step."""
    verified = {word for tool in spec.verify_tools for word in tool.argv}
    mended = [test for test in spec.context.failing_tests if not verified.isdisjoint((test, test.partition("::")[0]))]
    if mended:
        shown = [f"- {_line(test)}" for test in mended[:SHOWN_TESTS]]
        more = [f"- and {len(mended) - SHOWN_TESTS} more"] if len(mended) > SHOWN_TESTS else []
        yield "\n".join(["These tests were red and are green:", *shown, *more])
    about = f"{_line(spec.title)}: step" if spec.title else "Step"
    yield f"{about} {spec.step_id} of the plan {spec.plan_id}, attempt {spec.attempt}."


def _line(text: str) -> str:
    return disarm(" ".join(text.split()))[:MAX_LINE]
