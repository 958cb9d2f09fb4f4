"""A plan as `planner export` writes it: its stored parts and the lines of its log. It is data from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from schemas import codec
from schemas.stored import Attempt, StepStatus, decided
from tasks.base.errors import PlannerError
from tasks.record.held_plan import HeldPlan
from tasks.record.lines import Line, read_line, skip_blanks, spans

FORMAT, FORMAT_VERSION = "planner.plan", 1
WANTED: dict[str, type] = {
    "plan_id": str,
    "partition": int,
    "plan": dict,
    "steps": list,
    "ready": list,
    "left_over": list,
    "in_flight": list,
    "left_out": list,
}
PARTS = ("format", "format_version", "policy", "changed_meanwhile", *WANTED)
LOG_ALONE = "it is only the log, and a recording needs the plan too: export the plan again without --log"
JSON_FIELDS = frozenset({"head", "live", "goal", "document", "halt"})  # of the plan; other fields are texts
BORN = b'"born"'  # in the line of a creation, and perhaps in a text from outside
STATUS_NAMES = tuple(each.name for each in fields(StepStatus) if each.init)
ATTEMPT_NAMES = tuple(each.name for each in fields(Attempt) if each.name != "entry")

Item = dict[str, Any]


class NoExport(PlannerError):
    """The data is no export of a plan."""


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The contents of an export; `lines` are the lines of the plan's log as stored.

    `seed` is None if the plan had not ended; then its leases cannot be computed again. `policy` is the text of the
    operator's policy at the plan's creation, None without one. `is_whole` is true if all parts were read at the same
    moment.
    """

    plan_id: str
    partition: int
    plan: Item
    steps: Sequence[Item]
    ready: Sequence[str]
    left_over: Sequence[str]
    in_flight: Sequence[Item]
    left_out: Sequence[str]
    lines: Sequence[bytes]
    seed: str | None
    policy: str | None
    is_whole: bool

    @classmethod
    def read(cls, data: bytes) -> RecordedPlan:
        """Return the plan in an export; its JSON may have any layout. Raises NoExport."""
        try:
            text = data.decode()
            places = {name: (start, end) for name, start, end in spans(text, skip_blanks(text))}
            found = {name: codec.loads(text[slice(*places[name])]) for name in PARTS if name in places}
            start, _ = places["log"]
            lines = [text[first:last].encode() for _, first, last in spans(text, start)]
        except (ValueError, LookupError, RecursionError) as error:
            why = LOG_ALONE if _is_log(data) else f"it is no JSON object with a log ({type(error).__name__})"
            raise NoExport(why) from error
        if found.get("format") != FORMAT or found.get("format_version") != FORMAT_VERSION:
            raise NoExport(f'it is no document of the format "{FORMAT}", version {FORMAT_VERSION}')
        for name, kind in WANTED.items():
            if not isinstance(found.get(name), kind):
                raise NoExport(f"its `{name}` is missing, or no {kind.__name__}")
        if not all(isinstance(found["plan"].get(name), dict) for name in ("head", "live")):
            raise NoExport("its `plan` has no `head` or no `live`")
        if type(found["plan"].get("version")) is not int:
            raise NoExport("its `plan.version` is no whole number")
        seed, policy = found["plan"]["head"].get("seed"), found.get("policy")
        return cls(
            **{name: found[name] for name in WANTED},
            lines=lines,
            seed=seed if isinstance(seed, str) else None,
            policy=policy if isinstance(policy, str) else None,
            is_whole=found.get("changed_meanwhile") is False,
        )

    def read_lines(self) -> Iterator[Line]:
        """Yield the decoded lines. Raises ValueError, LookupError or RecursionError at the first invalid line."""
        return map(read_line, self.lines)

    def newest_birth(self) -> int:
        """Return the number of lines before the plan's last creation; these are of unfinished creations."""
        for number in range(len(self.lines) - 1, 0, -1):
            if BORN in self.lines[number] and "born" in read_line(self.lines[number]):
                return number
        return 0

    def kept(self) -> Item:
        """Return each part of the export by name, in the form of `kept_of`, so that the two can be compared."""
        found = _parts_of_plan(self.plan)
        for step in self.steps:
            for part in ("status", "dependents", "spec"):
                found[f"step {step['step_id']}: {part}"] = step.get(part)
        for one in self.in_flight:
            found[f"in flight: {one['step_id']}"] = {**one, "entry": ""}
        return found | {"ready": list(self.ready), "left_over": list(self.left_over)}


def kept_of(plan: HeldPlan) -> Item:
    """Return each stored part of a plan by name, without its seed, its leases and data that is only about time."""
    found = _parts_of_plan({name: _field(name, raw) for name, raw in plan.fields.items() if name != "lock"})
    for step, raw in plan.status.items():
        found[f"step {step}: status"] = name_columns(STATUS_NAMES, StepStatus.decode(raw).columns)
        found[f"step {step}: dependents"] = plan.dependents(step)
        found[f"step {step}: spec"] = plan.spec_of(step)
    for step, raw in plan.active.items():
        attempt = name_columns(ATTEMPT_NAMES, codec.loads(raw.partition(b" ")[2]))
        attempt.pop("lease", None)
        found[f"in flight: {step}"] = {"step_id": step, "entry": "", **attempt}
    ready = sorted(plan.ready, key=lambda step: (plan.ready[step], step))
    return found | {"ready": ready, "left_over": [item.decode() for item in plan.todo]}


def name_columns(names: Sequence[str], record: Sequence[Any]) -> Item:
    """Return the values of a stored record by the names of their columns; unknown later columns are in `more`."""
    named = dict(zip(names, record, strict=False))
    return {**named, "more": list(record[len(names) :])} if len(record) > len(names) else named


def _is_log(data: bytes) -> bool:
    """Return whether the data begins with a line of a log, as `planner export --log` writes it."""
    try:
        read_line(data.partition(b"\n")[0])
    except (ValueError, LookupError, RecursionError):
        return False
    return True


def _field(name: str, raw: bytes) -> Any:
    if name in JSON_FIELDS:
        return codec.loads(raw)
    return int(raw) if name == "version" else raw.decode(errors="replace")


def _parts_of_plan(plan: Mapping[str, Any]) -> Item:
    """Return each field of the plan's hash by name; head and live part are split into their fields."""
    found: Item = {}
    for name, value in plan.items():
        if name in ("head", "live"):
            value = decided(value) if name == "live" else value
            found |= {f"{name}.{key}": each for key, each in value.items() if key != "seed"}
        else:
            found[name] = value
    return found
