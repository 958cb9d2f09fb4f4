"""The next tasks about a delivered change: a follow-up plan, answers to a review, or a person who goes on with it.

All that the planner pushes goes to the change's branch and only while no person has a commit there.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from schemas.base import PlanState
from schemas.delivered import DeliveryState as S
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange, FollowUp, Why
from tasks.delivered.lifecycle import Fact, move
from tasks.delivered.seen import Checks, Remark, SeenChange
from tasks.text.fields import fit, last_lines, one_line, several_lines

DAY_MS = 86_400_000
REVERT_DAYS, REOPEN_DAYS, UNFOLLOWED_DAYS = 30, 14, 14
SELDOM_MS = 6 * 3_600_000  # between looks at a change that is merged or closed
IN_FLIGHT_MS = 15_000  # between looks while a follow-up plan works
LAG_MS = 600_000  # a forge may take so long to show a push
MAX_REMARK, MAX_SENTENCE, MAX_LOG, MAX_TESTS, MAX_REASON = 600, 3000, 32_000, 200, 300
WAITING = (Checks.NONE, Checks.RUNNING)
CAUSES: Mapping[Why, str] = {"checks": "its checks are red", "review": "its review asks for more"}


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits that an operator sets: rounds for each reason, and how long a review is quiet, ms.

    Without `acts` a change is only seen: the planner pushes and writes nothing.
    """

    rounds: int = 2
    quiet_ms: int = 300_000
    poll_ms: int = 300_000
    acts: bool = True


@dataclass(frozen=True, slots=True)
class Moved:
    """A step of the state machine."""

    before: S
    after: S
    at: int


def decide(
    change: DeliveredChange,
    seen: SeenChange,
    ends: Mapping[str, GoalAnswer],
    flaky: Set[str],
    terms: Terms,
    now: int,
) -> tuple[DeliveredChange, Moved | None]:
    """Return the change after a look at its forge, with its new tasks, and the move that it made.

    `ends` has the ends of the follow-up goals, `flaky` the tests that are known to fail without a cause.
    """
    found = change.model_copy(deep=True)
    found.number, found.head, found.target = seen.number, seen.head, seen.target
    found.merged_as = [*seen.merged_as]
    _note_ends(found, seen, ends, now)
    remarks = [each for each in seen.remarks if each.thread not in found.answered]
    fact = seen.fact if seen.fact is not Fact.ASKED or remarks else Fact.FINE
    moved = _move(found, fact, seen.at or now)
    if not seen.is_open:
        _stop(found)
    if not (seen.is_open and terms.acts):
        return found, moved
    _note_persons_commit(found, seen)
    if not found.in_flight:
        if seen.checks is Checks.RED:
            _mend(found, seen, flaky, terms)
        if remarks and not found.in_flight and max(each.at for each in remarks) + terms.quiet_ms <= now:
            _answer(found, remarks, terms)
    if seen.is_draft and seen.checks is Checks.GREEN:
        _do(found, Act(kind="ready"))
    return found, moved


def next_look(change: DeliveredChange, seen: SeenChange, terms: Terms, now: int) -> int | None:
    """Return in how many ms the forge is looked at again; None if no further state is possible."""
    since = now - change.times[change.state]
    if change.state is S.REVERTED:
        return None
    if change.state in (S.MERGED, S.CLOSED):
        days = REVERT_DAYS if change.state is S.MERGED else REOPEN_DAYS
        return SELDOM_MS if since < days * DAY_MS else None
    waits = [terms.poll_ms]
    if change.in_flight:
        waits.append(IN_FLIGHT_MS)
    if remarks := [each for each in seen.remarks if each.thread not in change.answered]:
        waits.append(max(1000, max(each.at for each in remarks) + terms.quiet_ms - now))
    return min(waits)


def _move(change: DeliveredChange, fact: Fact, at: int) -> Moved | None:
    after = move(change.state, fact)
    if after is change.state:
        return None
    moved = Moved(change.state, after, at)
    change.state, change.times[after] = after, at
    return moved


def _note_ends(change: DeliveredChange, seen: SeenChange, ends: Mapping[str, GoalAnswer], now: int) -> None:
    """Note the end of the follow-up plan; its threads are answered with its commit or the reason."""
    current = change.in_flight
    end = ends.get(current.goal_id) if current else None
    if current is None or end is None:
        return
    current.plan_id = end.plan_id or current.plan_id
    if reason := _reason(end):
        current.ended = True
        for thread in current.threads:
            _reply(change, thread, f"Not changed: {reason}")
        if current.why == "checks":
            _hand_over(change, f"{CAUSES['checks']}, and plan {current.plan_id} did not repair them: {reason}")
    elif end.ended_at:
        current.ended_at = current.ended_at or now
        made = [each.commit for each in seen.commits if each.is_of(frozenset({current.plan_id}))]
        if made or now >= current.ended_at + LAG_MS:
            current.ended = True
            said = f"Changed in {made[-1]}." if made else "Not changed: the branch has no commit of the plan."
            for thread in current.threads:
                _reply(change, thread, said)
            if not made and current.why == "checks":
                _hand_over(change, f"{CAUSES['checks']}, and the branch has no commit of plan {current.plan_id}")


def _reason(end: GoalAnswer) -> str:
    """Return why a follow-up goal has changed nothing; empty while it may, or if it has."""
    if end.verdict in ("REJECTED", "NOTHING_TO_DO"):
        said = end.halt_reason or end.reason
    elif end.state in (PlanState.HALTED, PlanState.REJECTED):
        said = end.halt_reason or end.halt_rule or end.state
    elif end.state == PlanState.COMPLETED and not end.branch:
        said = end.undelivered or "nothing was changed"
    else:
        return ""
    return fit(said, MAX_REASON, one_line)


def _stop(change: DeliveredChange) -> None:
    """Do nothing more about a change that is merged or closed."""
    change.todo = [act for act in change.todo if act.kind == "answer"]
    if current := change.in_flight:
        current.ended = True
        _do(change, Act(kind="cancel", about=current.goal_id, text=f"the change is {change.state}"))


def _note_persons_commit(change: DeliveredChange, seen: SeenChange) -> None:
    theirs = next((each.commit for each in seen.commits if not each.is_of(change.plans)), None)
    if theirs:
        _hand_over(change, f"a person has a commit on the branch, {theirs[:12]}")


def _mend(change: DeliveredChange, seen: SeenChange, flaky: Set[str], terms: Terms) -> None:
    """Make a follow-up plan for checks that are red; those that only flaky tests made red are run again, once."""
    failure = seen.failure
    if change.handed_over or seen.head in change.seen:
        return
    is_flaky = bool(failure.run and failure.failing_tests) and flaky >= set(failure.failing_tests)
    if is_flaky and seen.head not in change.run_again:
        change.run_again.append(seen.head)
        _do(change, Act(kind="run_again", about=failure.run))
        return
    change.seen.append(seen.head)
    if change.rounds("checks") >= terms.rounds:
        _hand_over(change, f"{CAUSES['checks']} after {terms.rounds} rounds")
        return
    names = ", ".join(fit(name, 100) for name in failure.names[:10]) or "the checks"
    _follow_up(
        change,
        "checks",
        f"Repair the delivered change: {names} failed at its last commit.",
        failing_tests=[fit(each, 1000) for each in failure.failing_tests[:MAX_TESTS]],
        log=fit(failure.log, MAX_LOG, last_lines),
    )


def _answer(change: DeliveredChange, remarks: list[Remark], terms: Terms) -> None:
    """Make one follow-up plan for all that a review asks for, or answer each thread with the reason against one."""
    if not change.handed_over and change.rounds("review") >= terms.rounds:
        _hand_over(change, f"{CAUSES['review']} after {terms.rounds} rounds")
    if change.handed_over:
        for each in remarks:
            _reply(change, each.thread, f"Left to a person: {change.handed_over}.")
        return
    listed = [f"{place_of(each)}{fit(each.text, MAX_REMARK)}" for each in remarks]
    text = "\n".join(["Answer the review of the delivered change:", *(f"- {line}" for line in listed)])
    _follow_up(change, "review", fit(text, MAX_SENTENCE, several_lines), threads=[each.thread for each in remarks])


def place_of(remark: Remark) -> str:
    """Return where a remark was made, as the beginning of a line."""
    return f"{fit(remark.place, 200)}: " if remark.place else ""


def _follow_up(
    change: DeliveredChange,
    why: Why,
    text: str,
    *,
    threads: list[str] | None = None,
    failing_tests: list[str] | None = None,
    log: str = "",
) -> None:
    goal_id = f"{change.goal_id[:150]}-{why}-{change.rounds(why) + 1}-{change.head[:12]}"
    made = FollowUp(goal_id=goal_id, why=why, head=change.head, threads=threads or [], text=text, log=log)
    made.failing_tests = failing_tests or []
    change.follow_ups.append(made)
    _do(change, Act(kind="follow_up", about=goal_id))


def _reply(change: DeliveredChange, thread: str, text: str) -> None:
    change.answered.append(thread)
    _do(change, Act(kind="answer", about=thread, text=text))


def _hand_over(change: DeliveredChange, why: str) -> None:
    """Leave a change to people, once."""
    if not change.handed_over:
        change.handed_over = why
        _do(change, Act(kind="comment", text=f"The planner leaves this change to a person: {why}."))


def _do(change: DeliveredChange, act: Act) -> None:
    if act not in change.todo:
        change.todo.append(act)
