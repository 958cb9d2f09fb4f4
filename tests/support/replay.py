"""Doings of a plan, and its log folded again on a plan that was created alike."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from schemas import codec
from schemas.stored import StepStatus
from tasks.record.fold import Fold
from tasks.record.held_plan import HeldPlan
from tasks.record.recorded_plan import ATTEMPT_NAMES, FORMAT, FORMAT_VERSION, JSON_FIELDS, STATUS_NAMES, name_columns
from tests.support.any_plan import an_order
from tests.support.plans import PLAN, Running, a_report
from tests.support.surroundings import alter


def run(plan: Running, doings: list[Any]) -> None:
    for number, (what, which, *said) in enumerate(doings):
        if what == "wait":
            plan.store.wait(min(which, 3_000_000))
            plan.sweep()
        elif what == "around":
            alter(plan, number, *which)
        elif what == "order":
            steps = sorted(plan.record.waits or plan.states)
            plan.obey(an_order(number, said[0], steps[which % len(steps)], plan.store.now))
        elif plan.active:
            step = sorted(plan.active)[which % len(plan.active)]
            if what == "claim":
                plan.store.claim(PLAN, step)
            else:
                told = {**said[0], "metrics": said[1], "diff_hash": f"{number % 3:032x}", "controller": f"c-{number}"}
                steps = [step] if what == "report" else sorted(plan.active)
                live = [(each, plan.active[each]) for each in steps]
                lease = number % 2  # half have no lease: valid until a controller claims the attempt
                plan.report(*[a_report(each, one.attempt, one.lease if lease else None, **told) for each, one in live])


def fold_again(plan: Running, created: Running) -> None:
    """Fold the log of `plan` on one that was created alike, and hold all that is kept of the two against each other."""
    again = Fold(deepcopy(created.store.held(PLAN)))
    specs = _specs(created)
    for line in plan.log[len(created.log) :]:
        specs += [one.spec for one in again.fold(line).dispatches]

    assert everything(again.plan) == everything(plan.store.held(PLAN))
    assert specs == _specs(plan)


def _specs(plan: Running) -> list[bytes]:
    return [one.spec for change in plan.changes for one in change.dispatches]


def everything(plan: HeldPlan) -> dict[str, Any]:
    """Return all stored data of the plan except its timer and the entries of its specs."""
    fields = dict(plan.fields)
    live = codec.loads(fields.pop("live"))
    for name in ("lock", "version"):  # commits behind the last line moved nothing
        fields.pop(name, None)
    active = {step: raw.partition(b" ")[2] for step, raw in plan.active.items()}
    found = {"plan": fields, "live": {**live, "wake": 0}, "active": active, "log": list(plan.log)}
    return found | {"steps": plan.steps, "status": plan.status, "ready": plan.ready, "todo": plan.todo}


def export_of(plan: HeldPlan, **other: Any) -> bytes:
    """Write a plan of partition 0 as `planner export` does, as far as a replay reads it; `other` parts as given."""
    fields: dict[str, Any] = {
        name: codec.loads(raw) if name in JSON_FIELDS else raw.decode()
        for name, raw in plan.fields.items()
        if name != "lock"
    }
    fields["version"] = plan.version
    flying = {
        step: name_columns(ATTEMPT_NAMES, codec.loads(raw.split(b" ", 1)[1])) for step, raw in plan.active.items()
    }
    statuses = {step: name_columns(STATUS_NAMES, StepStatus.decode(raw).columns) for step, raw in plan.status.items()}
    told: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "plan_id": plan.plan_id,
        "partition": 0,
        "left_out": [],
        "plan": fields,
        "ready": sorted(plan.ready, key=lambda step: (plan.ready[step], step)),
        "left_over": [item.decode() for item in plan.todo],
        "in_flight": [{"step_id": step, "entry": "1-0", **one} for step, one in flying.items()],
        "steps": [
            {
                "step_id": step,
                "status": status,
                "dependents": plan.dependents(step),
                "spec": plan.spec_of(step),
            }
            for step, status in sorted(statuses.items(), key=lambda pair: (pair[1]["index"], pair[0]))
        ],
        "changed_meanwhile": False,
    }
    for one in told["in_flight"]:
        del one["lease"]
    return codec.dumps({**told, **other})[:-1] + b',\n"log":[\n' + b",\n".join(plan.log) + b"]}\n"
