"""The next tasks about a delivered change: a follow-up plan, answers to a review, or a person who goes on with it.

All that the planner pushes goes to the change's branch and only while no person has a commit there.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from schemas.base import GoalVerdict, PlanState
from schemas.delivered import DeliveryState as S
from schemas.plan import GoalAnswer
from schemas.stored.delivered import Act, DeliveredChange, FollowUp, Why
from tasks.delivered.lifecycle import Fact, move
from tasks.delivered.seen import Checks, Remark, SeenChange, Stale
from tasks.text.fields import fit, last_lines, one_line, several_lines

DAY_MS = 86_400_000
REVERT_DAYS, REOPEN_DAYS, UNFOLLOWED_DAYS = 30, 14, 14
SELDOM_MS = 6 * 3_600_000  # between looks at a change that is merged or closed
IN_FLIGHT_MS = 15_000  # between looks while a follow-up plan works
LAG_MS = 600_000  # a forge may take so long to show a push
MAX_REMARK, MAX_SENTENCE, MAX_LOG, MAX_TESTS, MAX_REASON = 2000, 4000, 32_000, 200, 300
NO_PLAN = (GoalVerdict.REJECTED, GoalVerdict.NOTHING_TO_DO)
CAUSES: Mapping[Why, str] = {
    "checks": "its checks are red",
    "review": "its review asks for more",
    "target": "it conflicts with its target branch",
}
LAND_AGAIN = "Put the delivered change on top of its target branch again."


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits that an operator sets for the work on a delivered change.

    `rounds` is the maximum of follow-up plans for checks, and for reviews; `land_rounds` is that for landings. A review
    is answered if it had no remark for `quiet_ms`. A forge is read each `poll_ms`. A change lands again if it has a
    conflict, or is as stale as `lands_if`; with NO it never does. Without `acts` the planner only reads changes.
    """

    rounds: int = 2
    quiet_ms: int = 300_000
    poll_ms: int = 300_000
    acts: bool = True
    lands_if: Stale = Stale.CONFLICT
    land_rounds: int = 2


def decide(
    change: DeliveredChange,
    seen: SeenChange,
    ends: Mapping[str, GoalAnswer],
    flaky: Set[str],
    terms: Terms,
    now: int,
    may_land: bool = False,
) -> DeliveredChange:
    """Return the change after a look at its forge, with its new tasks.

    `ends` has the answers to the follow-up goals, and `flaky` the tests that are known to be flaky. The change may land
    again only with `may_land`: no other change of its repository is landing. A branch without a commit that names one
    of the change's plans is only read, because it may belong to another person or tenant.
    """
    found = change.model_copy(deep=True)
    found.number, found.head, found.target = seen.number, seen.head, seen.target
    found.merged_as = [*seen.merged_as]
    acts = terms.acts and any(each.names(found.plans) for each in seen.commits)
    _note_ends(found, seen, ends, now, acts)
    remarks = [each for each in seen.remarks if each.thread not in found.answered]
    fact = seen.fact if seen.fact is not Fact.ASKED or remarks else Fact.FINE
    _move(found, fact, seen.at or now)
    if not seen.is_open:
        _stop(found)
    if not (seen.is_open and acts):
        return found
    _note_persons_commit(found, seen)
    if seen.checks is not Checks.RED and seen.head in found.run_again:
        found.run_again[seen.head] = 0
    if not found.in_flight:
        if has_news(found, seen, now):
            _mend(found, seen, flaky, terms, now)
        if may_land and not found.in_flight and is_stale(found, seen, terms):
            _land_again(found, terms)
        if remarks and not found.in_flight and max(each.at for each in remarks) + terms.quiet_ms <= now:
            _answer(found, remarks, terms)
    if seen.is_draft and seen.checks is Checks.GREEN and not (found.was_made_ready or found.handed_over):
        found.was_made_ready = True
        _do(found, Act(kind="ready"))
    return found


def next_look(change: DeliveredChange, seen: SeenChange, terms: Terms, now: int) -> int | None:
    """Return in how many ms the forge is looked at again; None if no further state is possible."""
    since = now - change.times[change.state]
    if change.state is S.REVERTED:
        return None
    if any(act.kind == "cancel" for act in change.todo) and since < DAY_MS:
        return IN_FLIGHT_MS
    if change.state in (S.MERGED, S.CLOSED):
        days = REVERT_DAYS if change.state is S.MERGED else REOPEN_DAYS
        return SELDOM_MS if since < days * DAY_MS else None
    waits = [terms.poll_ms]
    if change.in_flight:
        waits.append(IN_FLIGHT_MS)
    elif remarks := [each for each in seen.remarks if each.thread not in change.answered]:
        waits.append(max(1000, max(each.at for each in remarks) + terms.quiet_ms - now))
    return min(waits)


def has_ended(end: GoalAnswer) -> bool:
    """Return whether a follow-up goal is over: its plan has ended, or it gets no plan."""
    return bool(end.ended_at) or end.verdict in NO_PLAN


def _move(change: DeliveredChange, fact: Fact, at: int) -> None:
    after = move(change.state, fact)
    if after is not change.state:
        _do(change, Act(kind="announce", about=change.state, text=after, at=at))
        change.state, change.times[after] = after, at


def _note_ends(change: DeliveredChange, seen: SeenChange, ends: Mapping[str, GoalAnswer], now: int, acts: bool) -> None:
    """Note the end of the follow-up plan; if the planner `acts`, answer the plan's review threads.

    The answer names the plan's commit, or the reason why there is none. Without a commit, a person may have to go on.
    """
    current = change.in_flight
    end = ends.get(current.goal_id) if current else None
    if current is None or end is None:
        return
    current.plan_id = end.plan_id or current.plan_id
    current.ended_at = current.ended_at or (now if end.ended_at else 0)
    reason, pushed = _reason(end), _pushed(current, seen)
    if not (reason or (end.ended_at and (pushed or now >= current.ended_at + LAG_MS))):
        return
    current.ended = True
    is_done = pushed and not reason
    said = f"Changed in {pushed}." if is_done else f"Not changed: {reason or 'the branch has no commit of the plan'}."
    for thread in current.threads if acts else ():
        _reply(change, thread, said)
    if acts and not is_done and (why := _why_left(current, reason)):
        hand_over(change, why)


def _pushed(current: FollowUp, seen: SeenChange) -> str:
    """Return the commit that the follow-up plan pushed last; "" while the branch has none."""
    if current.why == "target":  # the commits keep the names of their plans
        return seen.head if seen.head != current.head else ""
    return next((each.commit for each in reversed(seen.commits) if each.is_of(frozenset({current.plan_id}))), "")


def _why_left(current: FollowUp, reason: str) -> str:
    """Return why a person has to go on after a follow-up plan that pushed nothing; empty if the planner goes on."""
    if current.why == "target":
        return f"plan {current.plan_id} did not put it on top of its target branch: {reason}" if reason else ""
    if current.why == "review":
        return ""
    failed = f"plan {current.plan_id} did not repair them: {reason}"
    return f"{CAUSES['checks']}, and {failed if reason else f'the branch has no commit of plan {current.plan_id}'}"


def _reason(end: GoalAnswer) -> str:
    """Return why a follow-up goal changed nothing, as Markdown code; empty if it changed something, or still may.

    A forge obeys no mention, command, link or image in code.
    """
    if end.verdict in NO_PLAN:
        said = end.halt_reason or end.reason
    elif end.state in (PlanState.HALTED, PlanState.REJECTED):
        said = end.halt_reason or end.halt_rule or end.state
    elif end.state == PlanState.COMPLETED and not end.branch:
        said = end.undelivered or "nothing was changed"
    else:
        return ""
    return f"`{fit(said, MAX_REASON, one_line).replace('`', chr(39))}`"


def _stop(change: DeliveredChange) -> None:
    """Cancel the follow-up plan of a change that is merged or closed, and drop the tasks that no longer matter."""
    change.todo = [act for act in change.todo if act.kind in ("announce", "answer", "cancel")]
    if current := change.in_flight:
        current.ended = True
        _do(change, Act(kind="cancel", about=current.goal_id, text=f"the change is {change.state}"))


def _note_persons_commit(change: DeliveredChange, seen: SeenChange) -> None:
    theirs = next((each.commit for each in seen.commits if not each.is_of(change.plans)), None)
    if theirs:
        hand_over(change, f"a person has a commit on the branch, {theirs[:12]}")


def has_news(change: DeliveredChange, seen: SeenChange, now: int) -> bool:
    """Return whether red checks of the newest commit need an action that they have not had yet.

    They need none while they run again, while a follow-up plan works, or if a person has taken the change over.
    """
    is_over = seen.head in change.seen or change.run_again.get(seen.head, 0) > now
    return seen.checks is Checks.RED and not (change.in_flight or change.handed_over or is_over)


def is_stale(change: DeliveredChange, seen: SeenChange, terms: Terms) -> bool:
    """Return whether an open change needs another landing, or after too many landings a person."""
    is_wanted = seen.stale is Stale.CONFLICT or seen.stale is terms.lands_if
    if terms.lands_if is Stale.NO or seen.stale is Stale.NO or not (seen.is_open and terms.acts and is_wanted):
        return False
    has_rounds = change.rounds("target") < terms.land_rounds
    return not (change.in_flight or change.handed_over) and (has_rounds or seen.stale is Stale.CONFLICT)


def _land_again(change: DeliveredChange, terms: Terms) -> None:
    if change.rounds("target") >= terms.land_rounds:
        hand_over(change, f"{CAUSES['target']} after {terms.land_rounds} rounds")
    else:
        _follow_up(change, "target", LAND_AGAIN)


def _mend(change: DeliveredChange, seen: SeenChange, flaky: Set[str], terms: Terms, now: int) -> None:
    """Make a follow-up plan for checks that are red; those that only flaky tests made red are run again, once."""
    failure = seen.failure
    is_flaky = bool(failure.runs and failure.failing_tests) and flaky >= set(failure.failing_tests)
    if is_flaky and seen.head not in change.run_again:
        change.run_again[seen.head] = now + LAG_MS
        for run in failure.runs:
            _do(change, Act(kind="run_again", about=run))
        return
    change.seen.append(seen.head)
    if change.rounds("checks") >= terms.rounds:
        hand_over(change, f"{CAUSES['checks']} after {terms.rounds} rounds")
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
    """Make one follow-up plan for the threads of a review whose words fit into a goal, the oldest first.

    A change that is left to a person has each thread answered with the reason instead, and no thread twice.
    """
    if not change.handed_over and change.rounds("review") >= terms.rounds:
        hand_over(change, f"{CAUSES['review']} after {terms.rounds} rounds")
    if change.handed_over:
        known = {each.partition(":")[0] for each in change.answered}
        for each in remarks:
            if each.thread.partition(":")[0] in known:
                change.answered.append(each.thread)
            else:
                _reply(change, each.thread, f"Left to a person: {change.handed_over}.")
        return
    text, threads = "Answer the review of the delivered change:", list[str]()
    for each in remarks:
        line = f"\n- {place_of(each)}{fit(each.text, MAX_REMARK)}"
        if len(text) + len(line) > MAX_SENTENCE:
            break
        text, threads = text + line, [*threads, each.thread]
    _follow_up(change, "review", fit(text, MAX_SENTENCE, several_lines), threads=threads)


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


def hand_over(change: DeliveredChange, why: str) -> None:
    """Leave a change to a person, with a comment that gives the reason; this happens once for a change."""
    if not change.handed_over:
        change.handed_over = why
        _do(change, Act(kind="comment", text=f"The planner leaves this change to a person: {why}."))


def _do(change: DeliveredChange, act: Act) -> None:
    if act not in change.todo:
        change.todo.append(act)
