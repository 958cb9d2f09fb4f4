"""The validator: checks the conditions that every plan has to meet before any of its steps is dispatched.

It returns the errors of all steps together, up to MAX_ERRORS. Each has a JSON pointer into the plan, a code and a
sentence. It takes linear time in the size of the plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from schemas.base import MODE_OF_TYPE, GoalKind, Mode, StepType
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import DELIVERIES, MAX_LITERAL, PlannedStep
from tasks.base.batches import batches
from tasks.base.errors import UnknownCommand
from tasks.rules.budget import limits_of
from tasks.rules.judging import suite_of
from tasks.rules.permission import Allowlist
from tasks.rules.risk import RISK, assess_declared, is_below
from tasks.rules.strategy import Rejected
from tasks.text.fields import MAX_INTENT, MAX_TITLE
from tasks.text.folders import is_folder
from tasks.text.forbidden_paths import FORBIDDEN, JUDGED, Forbidden
from tasks.text.paths import fault
from tasks.text.sanitize import Treatment, is_plain, sanitize
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.command_lines import render

MAX_ERRORS = 100  # reported at once; a plan of 10 000 steps may hold more
MAX_MEMBERS = 10  # of a cycle that are named
MAX_TOOLS = 50
MAX_RETRIES = 3
SCANNED_AT_ONCE = 64  # steps

_BETWEEN = "\n[]\n"  # texts: no attack reaches across brackets

_STEP_ID = re.compile(r"[a-z0-9-]{1,64}")
_QUEUE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Found = Iterator[tuple[str, str, str]]  # pointer within the step, code, sentence


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a plan and goal that the checks of a step need, in addition to the step."""

    allowed: Container[str]
    ids: Counter[str]
    catalogue: Catalogue
    forbidden: Forbidden = JUDGED
    patterns: Container[str] = ()  # that a step may have
    is_strict: bool = False  # whether a step may name no more files than its risk allows to change


def validate(
    goal: Goal, steps: Sequence[PlannedStep], catalogue: Catalogue = CATALOGUE, forbidden: Forbidden = FORBIDDEN
) -> tuple[FieldError, ...]:
    """Return the errors of a plan for `goal`, at most MAX_ERRORS and a note about more; empty for a valid plan."""
    return _first(_errors(goal, steps, catalogue, forbidden))


def reject(reason: str, errors: tuple[FieldError, ...]) -> Rejected:
    """Return a rejection with `errors`; its reason is their code if they all have the same one, else `reason`."""
    codes = {error.code for error in errors}
    return Rejected(codes.pop() if len(codes) == 1 else reason, _first(errors))


def _first(errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    first = tuple(islice(errors, MAX_ERRORS + 1))
    if len(first) <= MAX_ERRORS:
        return first
    more = FieldError(pointer="", code="more_errors", message=f"Only the first {MAX_ERRORS} errors are listed.")
    return (*first[:MAX_ERRORS], more)


def max_steps(goal: Goal) -> int:
    """Return the largest number of steps that a plan for this goal may have."""
    return limits_of(goal)["max_steps"] or 1


def _errors(
    goal: Goal, steps: Sequence[PlannedStep], catalogue: Catalogue, forbidden: Forbidden
) -> Iterator[FieldError]:
    limit = max_steps(goal)
    if not steps:
        yield FieldError(pointer="/steps", code="no_steps", message="A plan needs at least one step.")
    if len(steps) > limit:
        message = f"The plan has {len(steps)} steps and may have {limit}; raise limits.max_steps."
        yield FieldError(pointer="/steps", code="too_many_steps", message=message)
    if (
        goal.holdout
        and goal.kind is GoalKind.TASK
        and any(step.mode is Mode.PATCH for step in steps)
        and not any(map(suite_of, steps))
    ):
        message = "No step runs tests, so that those which are held out would judge nothing."
        yield FieldError(pointer="/holdout", code="no_verification", message=message)
    allowed = Allowlist.of(goal.allowed_files, forbidden)
    around = Surroundings(
        allowed,
        Counter(step.step_id for step in steps),
        catalogue,
        forbidden,
        {*allowed.patterns, *allowed.files},
        is_strict=goal.steps is not None,
    )
    for index, step in enumerate(steps):
        for check in STEP_CHECKS:
            for pointer, code, message in check(step, around):
                yield FieldError(pointer=f"/steps/{index}{pointer}", code=code, message=message)
    position = {step.step_id: index for index, step in enumerate(steps)}
    for members in cycles({step.step_id: step.depends_on for step in steps}):
        pointer = f"/steps/{position[members[0]]}/depends_on"
        message = f"These steps wait for each other: {name_cycle(members)}."
        yield FieldError(pointer=pointer, code="cyclic_dependency", message=message)
    yield from injections(steps)


def cycles(graph: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield cyclic dependencies among steps, at least one of each group of connected cycles.

    A step that depends on itself is not reported here. Steps that Kahn's algorithm cannot order depend on a cycle,
    directly or through others. From each of them the function follows one such dependency until a step comes again. It
    takes linear time and does not recurse.
    """
    unmet: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for name, waits in graph.items():
        known = {each for each in waits if each in graph and each != name}
        unmet[name] = len(known)
        for each in known:
            dependents.setdefault(each, []).append(name)
    free = [name for name, count in unmet.items() if not count]
    for name in free:  # grows while it is read
        for each in dependents.get(name, ()):
            unmet[each] -= 1
            if not unmet[each]:
                free.append(each)
    left = frozenset(unmet).difference(free)
    yield from _cycles_among(
        {name: next(each for each in graph[name] if each in left and each != name) for name in graph if name in left}
    )


def _cycles_among(following: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield each cycle of a graph; every step of it has exactly one next step."""
    seen: set[str] = set()
    for start in following:
        path: dict[str, int] = {}
        name = start
        while name not in seen:
            seen.add(name)
            path[name] = len(path)
            name = following[name]
        if name in path:
            yield tuple(path)[path[name] :]


def name_cycle(members: Sequence[str]) -> str:
    """Return a cycle's members as a text, at most MAX_MEMBERS of them."""
    shown = ", ".join(members[:MAX_MEMBERS])
    return shown if len(members) <= MAX_MEMBERS else f"{shown} and {len(members) - MAX_MEMBERS} more"


def _identity(step: PlannedStep, around: Surroundings) -> Found:
    if not _STEP_ID.fullmatch(step.step_id):
        yield "/step_id", "invalid_step_id", "A step id is 1 to 64 lower-case letters, digits and hyphens."
    if around.ids[step.step_id] > 1:
        yield "/step_id", "duplicate_step_id", f"More than one step is called {step.step_id!r}."
    if not _QUEUE.fullmatch(step.queue):
        yield "/queue", "invalid_queue", "A queue's name is 1 to 64 lower-case letters, digits, `.`, `_` and `-`."
    if step.queue == DELIVERIES:
        yield "/queue", "reserved_queue", f"The queue {DELIVERIES!r} is for DELIVER steps: their controllers may push."


def _sizes(step: PlannedStep, _: Surroundings) -> Found:
    if not 0 < (size := len(step.title)) <= MAX_TITLE:
        yield "/title", "title_size", f"The title must have 1 to {MAX_TITLE} characters; it has {size}."
    if not 0 < (size := len(step.intent)) <= MAX_INTENT:
        yield "/intent", "intent_size", f"The intent must have 1 to {MAX_INTENT} characters; it has {size}."
    if not 0 <= step.retry_limit <= MAX_RETRIES:
        yield "/retry_limit", "retry_limit", f"A step may be retried 0 to {MAX_RETRIES} times."


def _dependencies(step: PlannedStep, around: Surroundings) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(step.depends_on):
        pointer = f"/depends_on/{index}"
        if name == step.step_id:
            yield pointer, "self_dependency", "A step cannot wait for itself."
        elif name not in around.ids:
            yield pointer, "unknown_dependency", f"There is no step {name!r}."
        elif name in seen:
            yield pointer, "duplicate_dependency", f"{name!r} is named twice."
        seen.add(name)


def _mode(step: PlannedStep, _: Surroundings) -> Found:
    kind = step.controller_task_spec.type
    if step.mode is not MODE_OF_TYPE[kind]:
        yield "/mode", "mode_type_mismatch", f"A {kind} step has the mode {MODE_OF_TYPE[kind]}, not {step.mode}."
    if kind in (StepType.LAND, StepType.DELIVER):
        message = f"The planner makes the {kind} step, where `delivery` asks."
        yield "/controller_task_spec/type", "reserved_type", message
    if kind is StepType.PATCH and not (step.allowed_files or step.allowed_patterns):
        yield "/allowed_files", "empty_allowlist", "A step that patches must name the files it may touch."
    if kind is not StepType.PATCH and (step.allowed_files or step.allowed_patterns):
        yield "/allowed_files", "files_without_patch", "Only a PATCH step may have allowed files."
    if kind is StepType.TEST and not step.verify_tools:
        yield "/verify", "nothing_to_test", "A TEST step must have a verification."


def _files(step: PlannedStep, around: Surroundings) -> Found:
    most = RISK[step.risk_level].max_files if around.is_strict else MAX_LITERAL
    if len(step.allowed_files) > most:
        yield "/allowed_files", "too_many_files", f"A {step.risk_level} step may name at most {most} files."
    for index, pattern in enumerate(step.allowed_patterns):
        if pattern not in around.patterns:
            yield (
                f"/allowed_patterns/{index}",
                "outside_allowlist",
                f"{pattern!r} is not among the goal's allowed_files.",
            )
    seen: set[str] = set()
    for index, path in enumerate(step.allowed_files):
        pointer = f"/allowed_files/{index}"
        if found := fault(path, around.forbidden):
            yield pointer, found.code, found.message
        elif path not in around.allowed:
            yield pointer, "outside_allowlist", f"{path!r} is not among the goal's allowed_files."
        if path in seen:
            yield pointer, "duplicate_file", f"{path!r} is named twice."
        seen.add(path)


def _verification(step: PlannedStep, around: Surroundings) -> Found:
    if len(step.verify_tools) > MAX_TOOLS:
        yield "/verify", "too_many_tools", f"A step may run at most {MAX_TOOLS} verifications."
        return
    if step.verify != render(step.verify_tools):
        yield "/verify", "verify_mismatch", "`verify` and `verify_tools` must name the same commands."
    for tool in step.verify_tools:
        try:
            contract = around.catalogue.contracts[around.catalogue.match_argv(tool.argv).tool]
        except UnknownCommand as error:
            yield "/verify", "unknown_command", str(error)
            continue
        if not is_folder(tool.cwd):
            yield "/verify", "unknown_folder", f"{tool.cwd!r} is no folder of the repository."
        if contract.id != tool.tool:
            yield "/verify", "tool_mismatch", f"This command is of {contract.id}, not of {tool.tool}."
        if is_below(step.risk_level, contract.min_risk):
            yield "/verify", "tool_needs_risk", f"{contract.id} may be used by {contract.min_risk} steps and above."


def _risk(step: PlannedStep, _: Surroundings) -> Found:
    limits = RISK[step.risk_level]
    if (found := assess_declared(step.risk_level, step.allowed_files)).why:
        yield "/risk_level", "risk_too_low", f"{found.why}: such a step is at least {found.level}."
    if step.controller_task_spec.type is not StepType.PATCH:
        return
    if limits.tests_required and not step.verify_tools:
        yield "/verify", "tests_required", f"A {step.risk_level} step that patches must have a verification."
    if limits.rollback_hint and not (step.rollback_hint or "").strip():
        yield "/rollback_hint", "rollback_hint_required", f"A {step.risk_level} step needs a hint how to undo it."


def injections(steps: Sequence[PlannedStep]) -> Iterator[FieldError]:
    """Yield an error for each text of a step that looks like an attack on an agent.

    To save time, the texts of many steps are scanned together, and single texts only after a finding.
    """
    for number, some in enumerate(batches(steps, SCANNED_AT_ONCE)):
        texts = [(index, *text) for index, step in enumerate(some, number * SCANNED_AT_ONCE) for text in _texts(step)]
        if is_plain(_BETWEEN.join(dict.fromkeys(text for _, _, text in texts))):
            continue
        for index, name, text in texts:
            if kinds := _attacks(text):
                message = f"This reads like an attack on the agent ({kinds}); use other words."
                yield FieldError(pointer=f"/steps/{index}{name}", code="potential_injection", message=message)


@lru_cache(maxsize=1024)  # many steps of a plan have the same success criteria and rollback hints
def _attacks(text: str) -> str:
    return ", ".join(sorted({attack.kind.value for attack in sanitize(text, Treatment.FLAG).findings}))


def _texts(step: PlannedStep) -> Iterator[tuple[str, str]]:
    yield "/title", step.title
    yield "/intent", step.intent
    yield "/success_criteria", step.success_criteria
    yield "/rollback_hint", step.rollback_hint or ""
    yield "/controller_task_spec/hint", step.controller_task_spec.hint or ""
    yield "/guidance", step.guidance or ""


# One row for each rule.
STEP_CHECKS: tuple[Callable[[PlannedStep, Surroundings], Iterable[tuple[str, str, str]]], ...] = (
    _identity,
    _sizes,
    _dependencies,
    _mode,
    _files,
    _verification,
    _risk,
)
