"""Halt rules of plans, as a table that is checked after every outcome.

While a plan is live, no rule has fired, so it is enough to check the step of the outcome. The thresholds are limits of
the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from schemas.base import FailureCategory as Category
from schemas.base import Mode, StepState
from schemas.outcome import Outcome
from schemas.plain_outcome import PlainOutcome
from schemas.stored import PlanRecord
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.advice_facts import MOST, Facts, category_of, listing, raise_limit, retries_of, sentence
from tasks.policy.flips import compared_as, count_flip
from tasks.policy.pipeline import AT_FAILURE, AT_SUCCESS, FIRES
from tasks.toolchain.classify import FAMILY, HALTS_AT_ONCE, OWN, Family, signature

MAX_REMEMBERED = 8  # failures, and steps that made the plan grow, in the explanation of a halt
FAILED = StepState.FAILED.value
IDENTICAL = "identical_failure"
SHOWN = 12  # characters of a change's digest
GREW = "FILES_CREATED"  # an entry among them in place of a category


class Seen(NamedTuple):
    """A plan and a step after an attempt, as the halt rules see them.

    `created` and `growth_kb` are figures of a failed attempt, whose change is discarded.
    """

    plan: PlanRecord
    step: Step
    created: int = 0
    growth_kb: int = 0
    flips: int = 0
    signature: str = ""  # of the failure
    quiet: bool = False  # nothing happened that could make a rule fire
    repeated: str = ""  # the digest of its change, if the attempt knew it as a failed one
    turned: bool = False  # its verification failed last, on the same tree, and passes now


class FiredRule(NamedTuple):
    """A rule that fired, with its reason and the values that reached its limit."""

    rule: str
    reason: str
    evidence: Mapping[str, Any]
    spares_completed: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One halt condition: it fires if `value` reaches the limit of this name, or with `beyond` exceeds it."""

    name: str
    limit: str
    value: Callable[[Seen], int]
    reason: str
    advice: Callable[[Facts], str]
    beyond: bool = False
    spares_completed: bool = False  # a plan whose every step is done is complete all the same
    only_step: bool = False  # only failures of the step led to it
    only: frozenset[str] = frozenset(Category)  # only failures of these categories led to it


def _advise_on_row(facts: Facts) -> str:
    kinds = listing(dict.fromkeys(f"{entry[0]} ({entry[2]})" for entry in facts.failed))
    met, name = int(facts.evidence.get("value") or 0), "consecutive_failures"
    ways = sentence("give the goal the context that the attempts lacked", raise_limit(facts, name, met + 1))
    return f"Read why these failed: {kinds}. {ways}"


def _advise_on_same(facts: Facts) -> str:
    step, met = facts.step, int(facts.evidence.get("value") or 0)
    name = step.step_id if step else "the step"
    category = category_of(step, facts.failed) if step else ""
    change = f"change the text or the context of {name}, since it failed {met} times in the same way ({category})"
    return sentence(change, raise_limit(facts, "identical_failures", met + 1))


def _advise_on_flips(facts: Facts) -> str:
    step, met = facts.step, int(facts.evidence.get("value") or 0)
    tools = listing(tool["tool"] for tool in step.facts["verify_tools"]) if step else ""
    return sentence(
        f"make the verification reliable ({tools or 'of the step'})", raise_limit(facts, "flaky_flips", met + 1)
    )


def _advise_on_growth(facts: Facts) -> str:
    name, met = str(facts.evidence.get("limit_name")), int(facts.evidence.get("value") or 0)
    return sentence("split the goal", raise_limit(facts, name, met) if name in MOST else "")


def _advise_on_deaths(facts: Facts) -> str:
    met, steps = int(facts.evidence.get("value") or 0), listing(dict.fromkeys(entry[0] for entry in facts.failed))
    find = f"find out why the controllers of {steps or 'these steps'} died or did not renew their leases"
    return sentence(find, raise_limit(facts, "lease_deaths", met + 1))


_DIED = frozenset({Category.LEASE_EXPIRED})
_TOLD = frozenset(Category) - _DIED

RULES = (
    Rule(
        "consecutive_failures",
        "consecutive_failures",
        attrgetter("plan.counters.consecutive"),
        "{value} outcomes in a row failed",
        _advise_on_row,
        only=_TOLD,
    ),
    Rule(
        IDENTICAL,
        "identical_failures",
        attrgetter("step.status.repeats"),
        "{step} failed {value} times in the same way",
        _advise_on_same,
        only=_TOLD,
        only_step=True,
    ),
    Rule(
        "file_growth",
        "max_new_files",
        lambda seen: seen.plan.growth.created + seen.created,
        "the plan created {value} files",
        _advise_on_growth,
        beyond=True,
        only=frozenset({GREW}),
    ),
    Rule(
        "file_growth",
        "max_growth_kb",
        lambda seen: seen.plan.growth.growth_kb + seen.growth_kb,
        "the plan added {value} kB",
        _advise_on_growth,
        beyond=True,
        only=frozenset({GREW}),
    ),
    Rule(
        "flaky",
        "flaky_flips",
        attrgetter("flips"),
        "the verification of {step} flipped between pass and fail {value} times",
        _advise_on_flips,
        only=_TOLD,
        spares_completed=True,
    ),
    Rule(
        "lease_deaths",
        "lease_deaths",
        attrgetter("plan.counters.lease_deaths"),
        "{value} controllers died over their attempts",
        _advise_on_deaths,
        only=_DIED,
    ),
)

# Categories that halt at once without regard to limits, with the name of their rule.
AT_ONCE = MappingProxyType(
    {each: "budget" if FAMILY[each] is Family.BUDGET else "security" for each in sorted(HALTS_AT_ONCE)}
)


class Success(Struct, frozen=True, gc=False):
    """A successful attempt in the form that counters take; times in ms."""

    step: Step
    outcome: Outcome | PlainOutcome
    verification: str  # what `compared_as` returns of the step
    began: int
    now: int
    lands: bool  # whether a change landed, which makes another tree


def success_of(step: Step, outcome: Outcome | PlainOutcome, verification: str, began: int, now: int) -> Success:
    """Return a successful attempt in the form that counters take."""
    lands = outcome.success and bool(outcome.touched_files or outcome.created_files)
    return Success(step, outcome, verification, began, now, lands)


def _count_pass(plan: PlanRecord, said: Success) -> None:
    is_of_tree = said.began >= plan.streaks.landed
    if said.lands:
        plan.streaks.land(said.now)
    if is_of_tree and said.verification:
        count_flip(plan, said.step, said.verification, passed=True)


def _has_not_flipped(plan: PlanRecord, said: Success) -> bool:
    streaks = plan.streaks
    if said.lands or said.began < streaks.landed or not said.verification:
        return True
    return streaks.flips.get(streaks.narrowed.get(said.step.step_id) or said.verification, 1) == 1


def _end_rows(plan: PlanRecord, said: Success) -> None:
    if plan.counters.consecutive:
        plan.counters.consecutive, plan.counters.asked = 0, False
    said.step.status.signature, said.step.status.repeats = "", 0


def _add_growth(plan: PlanRecord, said: Success) -> None:
    created, growth_kb = len(said.outcome.created_files), said.outcome.growth_kb or 0
    if created or growth_kb:
        plan.growth.created += created
        plan.growth.growth_kb += growth_kb
        remember(plan, said.step, GREW, said.now)


class Counter(NamedTuple):
    """A counter for halt rules: `at_success` counts a success; `is_quiet` states that no rule can fire because of it.

    Without `is_quiet` no success can make a rule of this counter fire.
    """

    at_success: Callable[[PlanRecord, Success], None]
    is_quiet: Callable[[PlanRecord, Success], bool] | None = None


COUNTERS = (
    Counter(_count_pass, _has_not_flipped),
    Counter(_end_rows),
    Counter(_add_growth, lambda _, said: not (said.outcome.created_files or said.outcome.growth_kb)),
)


def is_quiet(plan: PlanRecord, said: Success) -> bool:
    """Return whether no rule can fire for a success that is not counted yet."""
    for _, is_quiet_about in COUNTERS:
        may_fire = is_quiet_about is not None and not is_quiet_about(plan, said)
        if may_fire:
            return False
    return True


def count_success(plan: PlanRecord, said: Success) -> None:
    """Count a success in every counter of `COUNTERS`."""
    for at_success, _ in COUNTERS:
        at_success(plan, said)


def record_success(unit: UnitOfWork, step: Step, outcome: Outcome, began: int = 0) -> Seen:
    """Count a successful attempt that began at `began`, in ms."""
    plan, said = unit.plan, success_of(step, outcome, compared_as(step.facts), began, unit.snapshot.now)
    for note in AT_SUCCESS:  # before a landed change makes another tree
        note(unit, step, outcome)
    key, landed = plan.streaks.narrowed.get(step.step_id) or said.verification, plan.streaks.landed
    quiet, flips = is_quiet(plan, said), plan.streaks.flips.get(key, 1) >> 1
    count_success(plan, said)
    now_flips = plan.streaks.flips.get(key, 1) >> 1 if began >= landed else 0
    return Seen(plan, step, flips=now_flips, quiet=quiet, turned=now_flips > flips)


def record_failure(
    unit: UnitOfWork,
    step: Step,
    outcome: Outcome,
    failure: dict[str, Any],
    began: int = 0,
    *,
    known_flaky: bool = False,
) -> Seen:
    """Count a failed attempt before any decision about it.

    It began at `began`, in ms; 0 for an attempt that ended before this decision.
    """
    plan, counters, status = unit.plan, unit.plan.counters, step.status
    flips, repeated = 0, ""
    if _is_comparable(unit, outcome, failure, began) and (name := compared_as(step.facts)):
        flips = count_flip(plan, step, name, passed=False)
    created, growth_kb = len(outcome.created_files), outcome.growth_kb or 0
    if known_flaky:
        remember(plan, step, failure["category"], unit.snapshot.now)
        return Seen(plan, step, created, growth_kb, flips)
    if failure["category"] != Category.OUTPUT_REFUSED:  # an answer that cannot be used concerns only its step
        counters.consecutive += 1
    same = signature(Category(failure["category"]), failure["failing_tests"], failure["trace"] or "")
    has_more_time = _count_timeout(plan, step, failure["category"])
    for note_failure in AT_FAILURE:
        repeated = note_failure(unit, step, outcome, failure, began) or repeated
    if repeated:  # the same change again, with any evidence, made by any step
        status.repeats = max(status.repeats, 1) + 1
        status.signature = same or status.signature
    elif same and not has_more_time:  # a failure without a signature neither counts nor interrupts the row
        status.repeats = status.repeats + 1 if same == status.signature else 1
        status.signature = same
    remember(plan, step, failure["category"], unit.snapshot.now)
    return Seen(plan, step, created, growth_kb, flips, same, repeated=repeated)


def _count_timeout(plan: PlanRecord, step: Step, category: str) -> bool:
    """Count a timeout of a step of mode `test`; returns whether it is the first, which gives the step more time."""
    if category != Category.TEST_TIMEOUT or step.facts["mode"] != Mode.TEST:
        return False
    before = timeouts_of(plan, step)
    plan.counters.timeouts[step.step_id] = before + 1
    return not before


def timeouts_of(plan: PlanRecord, step: Step) -> int:
    """Return how often a step of mode `test` ran out of time."""
    return plan.counters.timeouts.get(step.step_id, 0)


def remember(plan: PlanRecord, step: Step, category: str, now: int) -> None:
    """Add an event of a step to the plan's last events, for the explanation of a halt."""
    entry = [step.step_id, step.status.attempt, category, now]
    plan.counters.failed = [*plan.counters.failed, entry][-MAX_REMEMBERED:]


def remember_revised(plan: PlanRecord, step: Step) -> None:
    """Record that a step was revised, for the explanation of a dead end; only the last ones are kept."""
    known = [each for each in plan.counters.revised if each != step.step_id]
    plan.counters.revised = [*known, step.step_id][-MAX_REMEMBERED:]


def describe_dead_end(unit: UnitOfWork) -> tuple[str, dict[str, Any]]:
    """Return why no step can run any more, with the failed steps that the plan remembers.

    Raises NeedsSteps if the snapshot lacks them.
    """
    plan, steps, counts = unit.plan, unit.snapshot.steps, unit.plan.counts
    values = {"value": counts.get(FAILED, 0), "limit": 0, "limit_name": "failed_steps", "counts": dict(counts)}
    last = [entry for entry in plan.counters.failed if entry[2] in frozenset(Category)]
    names = list(dict.fromkeys(entry[0] for entry in last))
    if missing := [name for name in names if name not in steps or steps[name].spec is None]:
        raise NeedsSteps(frozenset(missing))
    failed = [steps[name] for name in names if steps[name].status.state == FAILED]
    revised = set(plan.counters.revised)
    told = [{**retries_of(step, last, unit.snapshot.policy), "revised": step.step_id in revised} for step in failed]
    ids = {step.step_id for step in failed}
    evidence = {**values, "steps": told, "failed": [entry for entry in last if entry[0] in ids] or last}
    if not values["value"]:
        return "steps were skipped and nothing else can run", evidence
    what = ", ".join(f"{each['step_id']} ({each['category']})" for each in told)
    what = f": {what}" if what else ""
    if revised:
        return f"steps failed and no revision is left that could help{what}", evidence
    return f"steps failed, no revision was tried, and nothing else can run{what}", evidence


def all_fired(seen: Seen, failure: dict[str, Any] | None) -> Iterator[FiredRule]:
    """Yield the rules that fire: first those that halt at once, then those of the table."""
    if seen.quiet:
        return
    step, last = seen.step, seen.plan.counters.failed
    if failure and (rule_name := AT_ONCE.get(failure["category"])):
        category = failure["category"]
        reason = f"an attempt of {step.step_id} ended with {category}, which halts at once"
        values = {"value": category, "limit": None, "limit_name": "category", "told": failure["suggestion"]}
        yield FiredRule(rule_name, reason, {**values, "step_id": step.step_id, "failed": last[-1:]})
        return
    for fires in FIRES if failure else ():
        if failure and (found := fires(seen.plan, step, failure)):
            yield FiredRule(*found)
    for rule in RULES:
        limit = seen.plan.limits.get(rule.limit)  # a plan that is older than its rule has none
        if limit is None or (value := rule.value(seen)) < limit + rule.beyond:
            continue
        about = [entry for entry in last if entry[2] in rule.only and (entry[0] == step.step_id or not rule.only_step)]
        reason = rule.reason.format(value=value, step=step.step_id) + f"; the limit {rule.limit} is {limit}"
        evidence = {"value": value, "limit": limit, "limit_name": rule.limit}
        if seen.repeated and rule.name == IDENTICAL:
            change = seen.repeated[:SHOWN]
            reason += f"; the last attempt made the change {change} again, though it knew that this had failed"
            evidence["diff_hash"] = seen.repeated
        evidence |= {"step_id": step.step_id, "failed": about or last[-1:]}
        yield FiredRule(rule.name, reason, evidence, rule.spares_completed)


def _is_comparable(unit: UnitOfWork, outcome: Outcome, failure: dict[str, Any], began: int) -> bool:
    """Return whether a failure is a result of its verification on the plan's tree.

    The change of a failed attempt is discarded, so its result is about a tree that does not exist. A refusal by the
    planner is no result.
    """
    touched, is_of_tree = outcome.touched_files or outcome.created_files, began >= unit.plan.streaks.landed
    if touched and outcome.success:
        unit.plan.streaks.land(unit.snapshot.now)
    return is_of_tree and not touched and failure["category"] not in OWN
