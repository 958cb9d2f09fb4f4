"""A plan as `planner export` writes it: what was kept of it, and the lines of its log; data from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from schemas import codec
from schemas.step import unpack_step
from schemas.stored import Attempt, StepStatus
from tasks.base.errors import PlannerError
from tasks.record.held_plan import HeldPlan

FORMAT = "planner.plan"
JSON_FIELDS = frozenset({"head", "live", "goal", "document", "halt"})  # of the plan; the others are texts
STATUS_NAMES = tuple(each.name for each in fields(StepStatus) if each.init)
ATTEMPT_NAMES = tuple(each.name for each in fields(Attempt) if each.name != "entry")

Item = dict[str, Any]


class NoExport(PlannerError):
    """This is no export of a plan."""


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """What an export says of a plan; `lines` are those of its log as they were stored.

    `seed` is None where the plan had not ended: then no lease can be made again. `is_whole` says whether the parts of
    the export are of one moment.
    """

    plan_id: str
    partition: int
    plan: Item
    steps: Sequence[Item]
    ready: Sequence[str]
    left_over: Sequence[str]
    in_flight: Sequence[Item]
    lines: Sequence[bytes]
    seed: str | None
    is_whole: bool
    left_out: Sequence[str]

    @classmethod
    def read(cls, document: Any, lines: Sequence[bytes] | None = None) -> RecordedPlan:
        """Read an export, with the bytes of its lines where they are known; raises NoExport."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise NoExport(f'it is no document of the format "{FORMAT}", which `planner export` writes')
        if document.get("format_version") != 1:
            raise NoExport("its format_version is not 1")
        wanted: dict[str, type] = {"plan_id": str, "partition": int, "plan": dict, "steps": list, "ready": list}
        wanted |= {"left_over": list, "in_flight": list, "log": list, "left_out": list}
        for name, kind in wanted.items():
            if not isinstance(document.get(name), kind):
                raise NoExport(f"its `{name}` is missing, or no {kind.__name__}")
        plan = document["plan"]
        for name in ("head", "live"):
            if not isinstance(plan.get(name), dict):
                raise NoExport(f"its `plan.{name}` is missing, or no dict")
        seed = document.get("seed")
        return cls(
            **{name: document[name] for name in wanted if name != "log"},
            lines=list(map(codec.dumps, document["log"])) if lines is None else lines,
            seed=seed if isinstance(seed, str) else None,
            is_whole=document.get("changed_meanwhile") is False,
        )

    def kept(self) -> Item:
        """Name each part of what was kept, in the words of `kept_of`."""
        found = _parts_of_plan(self.plan)
        for step in self.steps:
            for part in ("status", "dependents", "spec"):
                found[f"step {step['step_id']}: {part}"] = step.get(part)
        for one in self.in_flight:
            found[f"in flight: {one['step_id']}"] = {**one, "entry": ""}
        return found | {"ready": list(self.ready), "left_over": list(self.left_over)}


def kept_of(plan: HeldPlan) -> Item:
    """Name each part of what is kept of a plan, as exports have it: without the seed, leases and what only times it."""
    found = _parts_of_plan({name: _field(name, raw) for name, raw in plan.fields.items() if name != "lock"})
    for step, raw in plan.status.items():
        found[f"step {step}: status"] = name_columns(STATUS_NAMES, codec.loads(raw))
        found[f"step {step}: dependents"] = plan.dependents(step)
        spec = plan.steps.get(step)
        found[f"step {step}: spec"] = unpack_step(spec) if spec else None
    for step, raw in plan.active.items():
        attempt = name_columns(ATTEMPT_NAMES, codec.loads(raw.partition(b" ")[2]))
        attempt.pop("lease", None)
        found[f"in flight: {step}"] = {"step_id": step, "entry": "", **attempt}
    ready = sorted(plan.ready, key=lambda step: (plan.ready[step], step))
    return found | {"ready": ready, "left_over": [item.decode() for item in plan.todo]}


def name_columns(names: Sequence[str], record: Sequence[Any]) -> Item:
    """Name the columns of a record; those of a newer version stand in `more`."""
    named = dict(zip(names, record, strict=False))
    return {**named, "more": list(record[len(names) :])} if len(record) > len(names) else named


def _field(name: str, raw: bytes) -> Any:
    if name in JSON_FIELDS:
        return codec.loads(raw)
    return int(raw) if name == "version" else raw.decode(errors="replace")


def _parts_of_plan(plan: Mapping[str, Any]) -> Item:
    """Name each part of the plan's own record; the timer hangs on leases, which are no inputs of the plan."""
    found = {}
    for name, value in plan.items():
        if name in ("head", "live"):
            found |= {f"{name}.{key}": each for key, each in value.items() if key not in ("seed", "wake")}
        else:
            found[name] = value
    return found
