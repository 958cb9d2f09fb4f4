"""A plan's log is enough: folding what came in again, at its times, gives the same state, byte for byte.

Only the timer is not compared: when the next look is due hangs on leases, which are no inputs of the plan.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from tasks import outcomes, upkeep
from tasks.errors import NeedsSteps
from tasks.outcomes import Report
from tasks.policy.dispatch import RUNNING_MARGIN_MS, SILENT_MS
from tests.property.test_plan_machine import LIMITS, METRICS, SAID, drafts
from tests.support.plans import PARTITION, PLAN, PYTEST, Running, a_report
from worker.store.plans import Ask, Write

DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 3), SAID, METRICS),
        st.tuples(st.just("claim"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([1, SILENT_MS, 5 * SILENT_MS, 3_600_000])),
    ),
    max_size=30,
)


def run(plan: Running, doings: list[Any]) -> None:
    for number, (what, which, *said) in enumerate(doings):
        if what == "wait":
            plan.store.wait(min(which, 3_000_000))
            plan.sweep()
        elif plan.active:
            step = sorted(plan.active)[which % len(plan.active)]
            if what == "claim":
                plan.store.claim(PLAN, step)
            else:
                plan.report(
                    a_report(step, plan.active[step].attempt, **said[0], metrics=said[1], diff_hash=str(number))
                )


def fold_again(plan: Running, lines: list[dict[str, Any]]) -> None:
    """Make the commits of `lines` in a plan that was created alike."""
    for line in lines[len(plan.log) :]:
        plan.store.now = line["now"]
        while plan.record.version < line["version"] - 1:  # commits that moved nothing, such as a timer set anew
            change = outcomes.apply(plan.begin(Ask(PLAN)), ())
            change.changed = True
            plan.store.commit([Write(change)])
        if reports := [_report(*said[1:]) for said in line["in"] if said[0] == "outcome"]:
            named = list(dict.fromkeys(report.outcome.step_id for report in reports))
            try:
                change = outcomes.apply(plan.begin(Ask(PLAN, named)), reports)
            except NeedsSteps as missing:
                change = outcomes.apply(plan.begin(Ask(PLAN, [*named, *sorted(missing.step_ids)])), reports)
        elif plan.begin(Ask(PLAN)).todo:
            change = outcomes.apply(plan.begin(Ask(PLAN)), ())
        else:
            _lease_again(plan, {said[1]: said for said in line["in"]})
            change = upkeep.apply(plan.begin(Ask(PLAN, list(plan.active), leases=True)))
        assert plan.store.commit([Write(change)]) == ["ok"]


def _report(attempt: int | None, lease: str | None, said: Any) -> Report:
    raw = codec.dumps(said)
    return Report(Outcome.model_validate_json(raw), attempt, lease, raw, blake2b(raw, digest_size=9).hexdigest())


def _lease_again(plan: Running, expired: dict[str, Any]) -> None:
    """Give every attempt in flight a lease that has run out just as the log says, or not at all."""
    now = plan.store.now
    for step in plan.active:
        lease = plan.store.hash(PARTITION.lease_prefix(PLAN) + step)
        lease["claimed"] = lease["renewed"] = now
        if step in expired:
            *_, claimed, reason = expired[step]
            if not claimed:
                lease["claimed"] = lease["renewed"] = 0
            elif "silent" in reason:
                lease["claimed"] = lease["renewed"] = min(now - SILENT_MS, plan.active[step].deadline)
            else:
                lease["claimed"] = now - RUNNING_MARGIN_MS - 2000 * PYTEST.timeout_s


def everything(plan: Running) -> dict[str, Any]:
    """All keys of the plan but for its timer, and what waits in the queue."""
    k = plan.keys
    found = {key: dict(plan.store.hash(key)) for key in (k.plan, k.status, k.ready, k.active, k.steps)}
    live = codec.loads(found[k.plan].pop("live"))
    found[k.plan].pop("lock", None)
    return found | {"live": {**live, "wake": 0}, "log": list(plan.store.items(k.log)), "specs": plan.specs}


@settings(max_examples=60, deadline=None)
@given(steps=drafts(), limits=LIMITS, doings=DOINGS)
def test_the_log_folded_again_gives_the_same_plan(
    steps: list[PlannedStep], limits: dict[str, Any], doings: list[Any]
) -> None:
    plan = Running(*steps, **limits)
    run(plan, doings)

    again = Running(*steps, **limits)
    fold_again(again, plan.log)
    plan.store.now = again.store.now

    was, now = everything(plan), everything(again)
    version = "version"  # commits behind the last line moved nothing
    was[plan.keys.plan].pop(version)
    now[plan.keys.plan].pop(version)
    assert now == was
