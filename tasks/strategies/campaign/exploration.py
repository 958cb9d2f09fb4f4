"""READ_EXPLORATION: collects the facts of the goal and of an exploration of its repository.

An exploration has four modes: structure, pattern, memory and delta. At least three of them must have a result, unless
the operator sets another number. With fewer, planning takes only the remembered results from the exploration.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from schemas.base import MODE_OF_TYPE, StepType
from schemas.goal import Definition, Goal, GoalContext
from schemas.kinds.campaign import (
    CampaignInput,
    Candidate,
    DeltaMode,
    Exploration,
    Idioms,
    Memory,
    MemoryMode,
    ModeStatus,
    PatternMode,
    Relevance,
    RememberedFailure,
    RememberedPattern,
    StructureMode,
)
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from schemas.wording import expected
from tasks.memory.alike import describe
from tasks.rules.risk import estimate
from tasks.rules.strategy import Phase
from tasks.strategies.campaign.formulas import failure_cost_k
from tasks.strategies.campaign.frameworks import NONE, detect_framework, framework
from tasks.strategies.campaign.parts import choices, sections, sections_of
from tasks.strategies.campaign.state import CampaignScope, CandidateFile, Knowledge
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, as_written, fill, fit, guidance
from tasks.text.json_in_prose import read_json
from tasks.text.paths import clean
from tasks.text.sanitize import sanitize
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import name_of
from tasks.toolchain.languages import language_of

EXPLORE = "explore"
READING = Phase("READ_EXPLORATION", "Step: exploration, Status: reading context")
FALLING_BACK = Phase("READ_EXPLORATION", "Step: exploration, Status: falling back on memory")
RETRIES = 1  # after a second refusal planning uses its memory, before too many failures in a row end the plan
_MODES = ("one mode", "two modes", "three modes", "all four modes")
_MISTAKES = 3  # errors named for one document
UNSURE = 0.5  # confidence in a framework without a stated one
MAX_CANDIDATES = 32
FIRST_DEFINITIONS = 20  # of a file, where the objective names none of them
_NAMED_FAILURES, _NAMED_PATTERNS, _NAMED_OUTSIDE = 5, 3, 10
_HEADINGS, _IDIOMS, _WORDS = 16, 10, 100
_NOTHING = frozenset({"", NONE, "null", "unknown", "n/a"})
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]{2,200}")
_Mode = TypeVar("_Mode", StructureMode, PatternMode, MemoryMode, DeltaMode)
_RANK = {Relevance.HIGH: 0, Relevance.MEDIUM: 1, Relevance.LOW: 2}

_ASKED = (
    'Answer in `output` with one JSON object of four modes, each with a "status" of ok, partial or error: '
    '{"structure": {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": 12, "language": "python"}, '
    '"pattern": {"status": "ok", "framework": "none", "confidence": 0.8, "idioms": {"required": [], "forbidden": []}}, '
    '"memory": {"status": "ok", "failures": [{"name": "", "cost": 0, "fix": ""}], "patterns": [], '
    '"similar_campaigns": []}, "delta": {"status": "ok", "search_terms": [], "candidates": [{"path": "src/a.py", '
    '"functions": [{"name": "login", "line": 10}], "relevance": "high"}]}}. '
    "Relevance is high, medium or low. At least {quorum} must come to something."
)


def explore_step(goal: Goal, least: int) -> PlannedStep:
    """Return the step that asks for an exploration; at least `least` of the four modes must have a result."""
    asked = _ASKED.replace("{quorum}", _MODES[least - 1])
    mode = MODE_OF_TYPE[StepType.EXPLORE]
    constraints = guidance(goal.constraints)
    return PlannedStep(
        step_id=EXPLORE,
        title="Explore the repository",
        intent=fill("Find out what a plan must know, without changing anything, for: {goal}", goal.goal, MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=StepType.EXPLORE),
        mode=mode,
        success_criteria="The four modes are answered, each with its status.",
        guidance=fit(f"{asked} {constraints}" if constraints else asked, MAX_GUIDANCE),
        retry_limit=RETRIES,
        queue=goal.queue,
        estimate=estimate(mode),
    )


def read_exploration(
    known: Knowledge, exploration: Exploration | None, scope: CampaignScope
) -> tuple[Knowledge, Phase]:
    """Add an exploration to the known facts; add only its memory if too few of its modes have a result."""
    if exploration is None:
        return known, FALLING_BACK
    structure, pattern = _sound(exploration.structure), _sound(exploration.pattern)
    found, delta = _sound(exploration.memory), _sound(exploration.delta)
    memory = found if found and (found.failures or found.patterns) else None  # else the older one has more
    most = scope.terms.failures
    if sum(mode is not None for mode in (structure, pattern, found, delta)) < scope.terms.quorum:
        return _add_memory(known, memory, most), FALLING_BACK
    known = _add_structure(known, structure) if structure else known
    known = _add_pattern(known, pattern) if pattern else known
    known = _add_memory(known, memory, most)
    return _add_candidates(known, delta.candidates if delta else (), frozenset(scope.allowed)), READING


def parse_exploration(output: Any) -> Exploration | str:
    """Return the exploration in an answer of any form; a sentence with the fault if it is not valid."""
    try:
        output = read_json(output)
    except ValueError:
        output = None
    if not isinstance(output, dict):
        return "The output is no exploration: it must be a JSON object with structure, pattern, memory and delta."
    try:
        found = Exploration.model_validate(output)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[:_MISTAKES]
        mistakes = "; ".join(f"{'.'.join(map(str, each['loc']))}: {expected(each)}" for each in wrong)
        return fit(f"The output is no exploration: {mistakes}.", MAX_INTENT)
    if not any((found.structure, found.pattern, found.memory, found.delta)):
        return "The output is no exploration: it has none of structure, pattern, memory and delta."
    return found


def objective_of(goal: Goal) -> str:
    """Return the sanitized objective of a campaign; the goal's sentence if there is none."""
    given = goal.campaign.objective if goal.campaign else None
    return sanitize(given).text if given and given.strip() else goal.goal


def knowledge_of_goal(
    goal: Goal,
    files: Sequence[str],
    test: VerifyTool | None,
    tested: Sequence[str],
    failures: int,
    similar: Iterable[Mapping[str, Any]] = (),
) -> Knowledge:
    """Return the facts that the goal itself supplies.

    `files` are the files that the goal allows. `test` is its test command, and `tested` lists the languages that this
    command tests. At most `failures` remembered failures count. If the goal brings no memory, the `similar` attempts of
    earlier plans replace it.
    """
    given = goal.campaign or CampaignInput()
    objective = objective_of(goal)
    told, texts = objective, goal.context.documents.items()
    if not sections(objective) and "readme" in objective.lower():  # then its sections are meant
        readmes = (text for path, text in texts if name_of(path).lower().startswith("readme"))
        told = next(filter(sections, readmes), objective)
    headings = sections(told)
    language = language_of(goal.context, files, tested)
    named = (_word(given.framework) or NONE).lower()
    used, confidence = (named, UNSURE) if named != NONE else detect_framework(goal.context)
    known = Knowledge(
        sections=len(headings),
        headings=tuple(fit(heading, _WORDS) for heading in headings[:_HEADINGS]),
        parts=sections_of(told, files),
        choices=choices(objective),
        framework=used,
        named=named != NONE,
        confidence=confidence if used != NONE else UNSURE,
        idioms=framework(used).idioms,
        language=language.name if language else None,
        test_command=render((test,)) if test else None,
        defined=_defined(goal.context.definitions, objective, frozenset(files)),
    )
    return _add_memory(known, given.memory or _own_memory(similar), failures)


def _defined(
    definitions: Mapping[str, Sequence[Definition]], objective: str, allowed: Collection[str]
) -> tuple[CandidateFile, ...]:
    """Return the place in each allowed file where it defines names of the objective, else its first definitions."""
    names = frozenset(_IDENTIFIER.findall(objective))
    found = []
    for path, given in definitions.items():
        some = sorted(given, key=lambda each: each.line)
        named = [each for each in some if not names.isdisjoint((each.name, each.name.rpartition(".")[2]))]
        if (shown := named or some[:FIRST_DEFINITIONS]) and clean(path) in allowed:
            found.append(
                CandidateFile(
                    path=clean(path),
                    relevance=Relevance.LOW,
                    function=fit(shown[0].name, _WORDS),
                    first=shown[0].line,
                    last=shown[-1].line,
                )
            )
    return tuple(found[:MAX_CANDIDATES])


def _own_memory(similar: Iterable[Mapping[str, Any]]) -> Memory | None:
    """Return a memory made of the `similar` attempts of earlier plans; None if there are none."""
    known = [*similar]
    failed = [
        RememberedFailure(
            name=each["title"], cost=each["wasted_tokens"], fix=f"look out for {', '.join(each['failed'])}"
        )
        for each in known
        if each["failed"]
    ]
    worked = [RememberedPattern(name=each["title"], insight=describe(each)) for each in known if not each["failed"]]
    similar_plans = tuple(map(describe, known))
    return Memory(failures=tuple(failed), patterns=tuple(worked), similar_campaigns=similar_plans) if known else None


def _sound(mode: _Mode | None) -> _Mode | None:
    """Return `mode` unless it is missing or reports an error; then return None."""
    return None if mode is None or mode.status is ModeStatus.ERROR else mode


def _add_structure(known: Knowledge, found: StructureMode) -> Knowledge:
    patterns = tuple(filter(None, map(_word, (found.test_pattern, *found.test_patterns))))
    spoken = language_of(GoalContext(language=found.language), ()) if found.language else None
    return known.model_copy(
        update={
            "file_count": found.file_count,
            "test_pattern": fit(", ".join(patterns), 200, as_written) or None,
            "language": known.language or (spoken.name if spoken else None),
        }
    )


def _add_pattern(known: Knowledge, found: PatternMode) -> Knowledge:
    """Add the framework and the idioms that the exploration found; a framework that the goal names stays.

    Without found idioms the built-in idioms of the framework apply.
    """
    seen_name = (_word(found.framework) or NONE).lower()
    if seen_name == NONE and known.framework != NONE and not known.named:
        return known  # the goal's own texts are better evidence
    name = known.framework if known.named else seen_name
    seen = found.idioms
    own = Idioms(required=_lines(seen.required), forbidden=_lines(seen.forbidden)) if seen else Idioms()
    idioms = own if own.required or own.forbidden else framework(name).idioms
    return known.model_copy(update={"framework": name, "idioms": idioms, "confidence": found.confidence})


def _add_memory(known: Knowledge, memory: Memory | None, most: int) -> Knowledge:
    """Replace the known memory by `memory`, with at most `most` failures; None changes nothing."""
    if memory is None:
        return known
    failures = memory.failures[:most]
    fixes = (f"{each.name}: {each.fix or each.trigger or 'no fix is known'}" for each in failures[:_NAMED_FAILURES])
    kept = (f"{each.name}: {each.insight or 'it worked'}" for each in memory.patterns[:_NAMED_PATTERNS])
    cost_k = failure_cost_k(each.cost for each in failures)
    update = {"failures": _lines(fixes), "patterns": _lines(kept), "cost_k": cost_k}
    return known.model_copy(update=update)


def _add_candidates(known: Knowledge, candidates: Iterable[Candidate], allowed: frozenset[str]) -> Knowledge:
    """Store the candidates that the goal allows, most relevant first, and list the other paths as `outside`."""
    best = sorted(candidates, key=lambda each: _RANK[each.relevance])
    files: dict[str, CandidateFile] = {}
    outside: dict[str, str] = {}
    for each in best:
        path = clean(each.path)
        if path not in allowed and each.relevance is not Relevance.LOW:
            outside[path] = fit(path, _WORDS)
        if path not in allowed or path in files:
            continue
        functions = sorted(each.functions, key=lambda function: function.line)
        files[path] = CandidateFile(
            path=path,
            relevance=each.relevance,
            function=fit(functions[0].name, _WORDS) if functions else "",
            first=functions[0].line if functions else 0,
            last=functions[-1].line if functions else 0,
        )
    update = {"candidates": tuple(files.values())[:MAX_CANDIDATES], "outside": (*outside.values(),)[:_NAMED_OUTSIDE]}
    return known.model_copy(update=update)


def _word(text: str | None) -> str | None:
    """Return a name from outside; None if the text means that there is no name, such as "none"."""
    word = fit(text or "", _WORDS)
    return None if word.lower() in _NOTHING else word


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, (fit(each, _WORDS) for each in tuple(lines)[:_IDIOMS])))
