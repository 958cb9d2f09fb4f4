"""A stored step: its constant part, its status, and its attempt in flight.

The constant part is an array of the values that nearly every step has, in a quarter of the bytes of named fields. Texts
that several steps of a plan share are stored once (TEXTS), with a number in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from schemas import codec
from schemas.step import OMITTED, ROOT, PlannedStep, VerifyTool, fields_of

LAYOUT = 1  # layout of stored plans; raised if this version cannot read those of a newer one
TEXTS = "#texts"  # key among the steps of a plan; no step has this name
MOST_TEXTS = 32
ORDER = tuple(PlannedStep.model_fields)
SHORTEST = 8  # characters
NO_MATTER = ("",) * MOST_TEXTS
LINE = "\n"  # between patterns, which have none
PATTERNS = ("allowed_patterns", "excluded_patterns", "forbidden")
JOINT = " && "  # between the commands of a verification, as `verify` shows them
NO_TEXTS: Mapping[str, int] = MappingProxyType({})
PASSES = (0,)  # the exit codes of nearly every tool
SELDOM = {name: value for name, value in OMITTED.items() if name != "success_criteria"}
_seldom_of = attrgetter(*SELDOM)


def shared_texts(steps: Iterable[PlannedStep]) -> list[str]:
    """Return the texts that more than one of these steps has, those with the most bytes first.

    The patterns of these steps come before them: steps that are added later have the same ones.
    """
    steps = tuple(steps)
    found = Counter(text for step in steps for text in (step.title, step.intent, step.verify, step.success_criteria))
    shared = [(count * len(text), text) for text, count in found.items() if count > 1 and len(text) >= SHORTEST]
    patterns = dict.fromkeys(LINE.join(each) for step in steps for name in PATTERNS if (each := getattr(step, name)))
    texts = [text for _, text in sorted(shared, key=lambda pair: -pair[0])]
    return [*dict.fromkeys((*patterns, *texts))][:MOST_TEXTS]


def pattern_places(step: PlannedStep, texts: Sequence[str]) -> Mapping[str, int]:
    """Return the places in the plan's `texts` of the patterns of a step that is added or rewritten later."""
    wanted = {LINE.join(getattr(step, name)) for name in PATTERNS} - {""}
    return {text: place for place, text in enumerate(texts) if text in wanted} if wanted else NO_TEXTS


def store_step(step: PlannedStep, window: Sequence[str] = (), texts: Mapping[str, int] = NO_TEXTS) -> bytes:
    """Encode a step for the store.

    `window` has the first dependents of the step. `texts` has the place of each shared text. Values that differ from
    OMITTED are in an object at the end, together with those of a newer version.
    """
    task, estimate, more = step.controller_task_spec, step.estimate, step.__pydantic_extra__ or {}
    rest: dict[str, Any] = {
        name: value
        for (name, omitted), value in zip(SELDOM.items(), _seldom_of(step), strict=True)
        if value != omitted and value != ()
    }
    for name in PATTERNS:
        if name in rest:
            rest[name] = texts.get(LINE.join(rest[name]), rest[name])
    if required := step.required:
        rest["requires"] = required
    for name in ("controller_task_spec", "estimate"):
        if getattr(step, name).__pydantic_extra__:
            rest[name] = getattr(step, name)
    if any(tool.__pydantic_extra__ for tool in step.verify_tools):
        rest["verify_tools"] = step.verify_tools
    stored: list[Any] = [
        " ".join(window),
        step.step_id,
        texts.get(step.title, step.title),
        texts.get(step.intent, step.intent),
        step.allowed_files,
        texts.get(step.verify, step.verify),
        _tools(step.verify, step.verify_tools),
        step.risk_level,
        task.type,
        0 if step.allowed_files and task.target_file == step.allowed_files[0] else task.target_file,
        task.hint,
        step.mode,
        texts.get(step.success_criteria, step.success_criteria),
        step.depends_on,
        estimate.tokens,
        estimate.patch_cycles,
    ]
    if rest or more:
        stored.append({**rest, **more})
    return codec.dumps(stored, fields_of)


def window_of(stored: bytes) -> list[str]:
    """Return the ids of the first dependents of a step, which are stored with the step."""
    return stored[2 : stored.index(b'"', 2)].decode().split()


def read_step(stored: bytes, texts: Sequence[str] = ()) -> dict[str, Any]:
    """Decode a stored step: its fields by name, without the values in OMITTED.

    `texts` are those of its plan (`read_texts`).
    """
    (_, step_id, title, intent, files, verify, tools, risk, kind, target, hint, mode, criteria, depends_on, *more) = (
        codec.loads(stored)
    )
    tokens, patch_cycles, *rest = more
    title = texts[title] if type(title) is int else title
    intent = texts[intent] if type(intent) is int else intent
    verify = texts[verify] if type(verify) is int else verify
    criteria = texts[criteria] if type(criteria) is int else criteria
    facts = {
        "step_id": step_id,
        "title": title,
        "intent": intent,
        "allowed_files": files,
        "verify": verify,
        "risk_level": risk,
        "controller_task_spec": {"type": kind, "target_file": files[0] if target == 0 else target, "hint": hint},
        "mode": mode,
        **({"success_criteria": criteria} if criteria else {}),
        "depends_on": depends_on,
        "verify_tools": _tools_of(verify, codec.dumps(tools)),
        "estimate": {"tokens": tokens, "patch_cycles": patch_cycles},
    }
    if not rest:
        return facts
    facts |= rest[0]
    for name in PATTERNS:
        if type(kept := facts.get(name)) is int:
            facts[name] = texts[kept].split(LINE)
    return {name: facts[name] for name in ORDER if name in facts} | facts


def unpack_step(stored: bytes, texts: Sequence[str] = ()) -> dict[str, Any]:
    """Decode a stored step with every field; omitted ones come last."""
    return complete(read_step(stored, texts))


def complete(found: dict[str, Any]) -> dict[str, Any]:
    """Add the omitted fields to those of a step."""
    return found | {name: value for name, value in OMITTED.items() if name not in found}


def read_texts(stored: bytes | None) -> Sequence[str]:
    """Decode the texts stored under TEXTS; empty for a plan without any."""
    found: Sequence[str] = codec.loads(stored) if stored else ()
    return found


def queue_of(stored: bytes) -> str:
    """Return the queue of a stored step; the texts of the step's plan are not needed."""
    return str(unpack_step(stored, NO_MATTER)["queue"])


def depends_on(stored: bytes) -> list[str]:
    """Return the dependencies of a stored step; the texts of the step's plan are not needed."""
    found: list[str] = read_step(stored, NO_MATTER)["depends_on"]
    return found


def _tools(verify: str, tools: Sequence[VerifyTool]) -> list[list[Any]]:
    """Encode the tools of a step without the words that are also in `verify`, and without the usual pass codes."""
    found = []
    for tool, words in zip(tools, _words(verify, len(tools)), strict=True):
        one: list[Any] = [tool.tool, tool.timeout_s]
        runs_otherwise = tool.strict or tool.cwd != ROOT
        if (is_other := words != list(tool.argv)) or tool.pass_codes != PASSES or runs_otherwise:
            one += [tool.argv if is_other else None, tool.pass_codes]
        if runs_otherwise:
            one.append(tool.cwd)
        if tool.strict:
            one.append(True)
        found.append(one)
    return found


@lru_cache(maxsize=256)
def _tools_of(verify: str, stored: bytes) -> list[Mapping[str, Any]]:
    """Decode the output of `_tools`; many steps share the result, so it must never be changed."""
    tools: list[list[Any]] = codec.loads(stored)
    found: list[Mapping[str, Any]] = []
    for (tool, timeout_s, *more), words in zip(tools, _words(verify, len(tools)), strict=True):
        argv, codes, *run = more or (None, PASSES)
        found.append(
            {"tool": tool, "argv": words if argv is None else argv, "timeout_s": timeout_s, "pass_codes": list(codes)}
            | ({"cwd": run[0]} if run and run[0] != ROOT else {})
            | ({"strict": True} if len(run) > 1 else {})
        )
    return found


def _words(verify: str, count: int) -> list[list[str]]:
    """Split a verification into the words of its commands; empty words if it does not have `count` commands."""
    commands = verify.split(JOINT)
    return [command.split(" ") for command in commands] if len(commands) == count else [[]] * count


@dataclass(slots=True)
class StepStatus:
    """The changing part of a step: an array of its fields, with `unmet` first because begin reads it in Lua."""

    unmet: int
    state: str
    index: int
    attempt: int = 0
    failures: int = 0
    digest: str = ""
    signature: str = ""
    repeats: int = 0
    skipped_by: str = ""
    previous: dict[str, Any] | None = None
    approval: str = ""  # "", "asked" or who gave it
    unknown: tuple[Any, ...] = field(default=(), init=False)

    @classmethod
    def decode(cls, raw: bytes) -> StepStatus:
        """Decode the output of `encode`, of this version or a newer one."""
        record = codec.loads(raw)
        if len(record) <= STATUS_SIZE:  # nearly always
            return cls(*record)
        found = cls(*record[:STATUS_SIZE])
        found.unknown = tuple(record[STATUS_SIZE:])
        return found

    def move(self, after: str, counts: dict[str, int]) -> None:
        """Move the step to the state `after`, and update the counts of its plan."""
        counts[self.state] -= 1
        counts[after] = counts.get(after, 0) + 1
        self.state = after

    @property
    def columns(self) -> tuple[Any, ...]:
        """The fields in their order, then those of a newer version."""
        known = (
            *(self.unmet, self.state, self.index, self.attempt, self.failures, self.digest),
            *(self.signature, self.repeats, self.skipped_by, self.previous, self.approval),
        )
        return known + self.unknown

    def encode(self) -> bytes:
        """Return the record as a JSON array in the order of the fields, without most of the last empty ones."""
        if self.signature or self.repeats or self.skipped_by or self.previous or self.approval or self.unknown:
            return codec.dumps(self.columns)
        if self.attempt or self.failures or self.digest:
            return codec.dumps((self.unmet, self.state, self.index, self.attempt, self.failures, self.digest))
        return codec.dumps((self.unmet, self.state, self.index))


STATUS_SIZE = len(fields(StepStatus)) - 1  # elements that this version knows


@dataclass(slots=True)
class Attempt:
    """An attempt in flight, stored as an array of all fields but the last: its reservation until it ends."""

    attempt: int
    lease: str
    queue: str
    files: list[str]
    tokens: int
    patch_cycles: int
    at: int
    deadline: int
    lost: int = 0  # ms that its plan had stood still when it began
    entry: str = ""  # the spec's stream entry id; commit writes it in front of the record

    @classmethod
    def decode(cls, raw: bytes) -> Attempt:
        """Decode `<entry> <json array>`; an attempt is written once, so additions of a newer version are not needed."""
        entry, _, record = raw.partition(b" ")
        found = cls(*codec.loads(record)[:ATTEMPT_SIZE])
        found.entry = entry.decode()
        return found

    def encode(self) -> bytes:
        """Return the record without its entry, which only the server knows."""
        return codec.dumps(
            (
                self.attempt,
                self.lease,
                self.queue,
                self.files,
                self.tokens,
                self.patch_cycles,
                self.at,
                self.deadline,
                self.lost,
            )
        )


ATTEMPT_SIZE = len(fields(Attempt)) - 1
