"""Hostile text in a goal or an outcome gives no step more than it had: commands, files, type, mode and queue stay ours.

Recorded plans are played once as they were and once with one string changed; the specs that come out are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas import codec
from tasks.text.paths import fault
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus import record
from tests.corpus.play import Input, Player, Scene
from tests.support.attacks import ATTACK
from tests.support.examples import few_and_many
from tests.support.smuggling import AFTER, BEFORE, SMUGGLED_WORDS

MOST_INPUTS = 20  # of a recorded plan, so that many plans are played
LATER_MS = 600_000  # by when what waits before its retry is handed out

# Strings that are words for people and agents and decide nothing, by the name of their field.
WORDS = frozenset(
    {
        *("tenant", "repo", "base_sha", "constraints", "title", "intent", "rollback_hint"),
        *("controller", "diff_hash", "suggestion", "error_message", "roadmap_version", "iteration_id"),
        *("summary", "plan_summary", "rationale", "reason", "actions", "guardrails", "risks", "focus_metrics"),
        *("finding", "check", "decision", "problem", "reasoning_chain", "module_comment", "acceptance_criteria"),
    }
)
EVIDENCE = ("affected_files", "category", "stack_trace_head", "top_failing_tests")  # what the next attempt is made of
ADDED = {"error_message": "It failed", "controller": "ctl-7"}  # to every outcome: not all that are recorded have them
BODY = 3  # where its outcome stands in a report
Place = tuple[str | int, ...]
Change = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Authority:
    """What a spec lets a controller do."""

    queue: str
    type: str
    mode: str
    files: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, queue: str, spec: dict[str, Any]) -> Authority:
        assert spec["queue"] == queue
        commands = tuple(tuple(tool["argv"]) for tool in spec["verify_tools"])
        return cls(queue, spec["controller_task_spec"]["type"], spec["mode"], tuple(spec["allowed_files"]), commands)

    @property
    def kind(self) -> tuple[str, str, str]:
        """Who gets it, and what sort of work it is."""
        return self.queue, self.type, self.mode

    @property
    def words(self) -> set[str]:
        """The words of its commands."""
        return {word for command in self.commands for word in command}


@cache
def recorded() -> list[record.Recorded]:
    return list(record.read())


@cache
def ours() -> tuple[frozenset[str], frozenset[str]]:
    """The words of commands and the queues of all specs that were recorded."""
    found = [
        Authority.of(queue, codec.loads(spec))
        for plan in recorded()
        for output in plan["outputs"]
        for queue, spec in output.get("specs", ())
    ]
    return frozenset().union(*(each.words for each in found)), frozenset(each.queue for each in found)


def strings(value: Any, place: Place = ()) -> Iterator[Place]:
    """Name the places of the strings in JSON."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(each, (*place, key))


def changed(value: Any, place: Place, change: Change) -> Any:
    """Copy JSON with one string changed."""
    if not place:
        return change(value)
    copy = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], change)
    return copy


def field(place: Place) -> str:
    return [name for name in place if isinstance(name, str)][-1]


def is_name(word: str) -> bool:
    """Whether no tool takes a word for more than the name of a file or of a test in it; any test may be run first."""
    return fault(word.partition("::")[0].removeprefix("./")) is None and not word.startswith(("-", "+", "@", "%"))


def specs(scene: Scene, inputs: list[Input]) -> dict[tuple[str, int], Authority]:
    """Play a plan; returns what each step may do at each attempt."""
    player = Player(scene)
    for given_input in inputs:
        player.play(given_input)
    if not player.is_over:
        player.play(["wait", LATER_MS])
    found = [(queue, codec.loads(spec)) for queue, spec in player.outputs().get("specs", ())]
    return {(spec["step_id"], spec["attempt"]): Authority.of(queue, spec) for queue, spec in found}


@cache
def strings_by_field() -> dict[str, list[tuple[int, int, Place]]]:
    """Where the strings of each field are: a recorded plan, its goal (-1) or one of its inputs, and the place there."""
    found: dict[str, list[tuple[int, int, Place]]] = defaultdict(list)
    for number, plan in enumerate(recorded()):
        for place in strings(plan["scene"]["goal"]):
            found[field(place)].append((number, -1, place))
        for at, (verb, *about) in enumerate(plan["inputs"][:MOST_INPUTS]):
            for place in strings(enriched(about[0])) if verb == "report" else ():
                if place[1] == BODY:
                    found[field(place)].append((number, at, place))
    return found


def enriched(reports: list[Any]) -> list[Any]:
    return [[*who, {**ADDED, **body}] for *who, body in reports]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Scene, list[Input], Place]:
    """Choose a string of any field, and the recorded plan that it is in: as far as its outcome, or its goal alone."""
    places = strings_by_field()
    name = draw(st.one_of(st.sampled_from(EVIDENCE), st.sampled_from(sorted(places))))
    number, at, place = draw(st.sampled_from(places[name]))
    scene, inputs = recorded()[number]["scene"], recorded()[number]["inputs"]
    return scene, [*inputs[:at], ["report", enriched(inputs[at][1])]] if at >= 0 else [], place


HOSTILE = st.one_of(st.sampled_from([*AFTER, *BEFORE, *SMUGGLED_WORDS, ATTACK]), st.text(max_size=20))
HOW = st.sampled_from(["{new}", "{old}{new}", "{new}{old}"])


@few_and_many(50, 200, cases(), HOSTILE, HOW, suppress_health_check=[HealthCheck.too_slow])
def hostile_text(case: tuple[Scene, list[Input], Place], text: str, how: str) -> None:
    scene, inputs, place = case
    before = specs(scene, inputs)

    def change(old: str) -> str:
        return how.format(old=old, new=text)

    if inputs:
        inputs = [*inputs[:-1], ["report", changed(inputs[-1][1], place, change)]]
    else:
        scene = {**scene, "goal": changed(scene["goal"], place, change)}
    try:
        after = specs(scene, inputs)
    except ValidationError:
        return  # what the wire refuses never comes to the planner

    goal = scene["goal"]
    named = {path for path in (*goal["allowed_files"], *goal["context"].get("files", ())) if fault(path) is None}
    words, queues = ours()
    for each in after.values():
        assert set(each.files) <= named
        assert {word for word in each.words - words if not is_name(word)} == set()
        assert all(CATALOGUE.match_argv(command).argv == command for command in each.commands)
        assert each.queue in queues | {goal.get("queue")}
    pairs = [(before[step], each) for step, each in after.items() if step in before]
    if inputs and "output" not in place:
        assert [(old, new) for old, new in pairs if old.kind != new.kind] == []
    if field(place) in WORDS:
        assert [(old, new) for old, new in pairs if old != new] == []


(
    test_hostile_text_gives_no_step_more_than_it_had,
    test_hostile_text_at_length,
) = hostile_text


def test_the_recorded_plans_have_the_words_that_are_changed() -> None:
    """Shows that the property speaks of something."""
    fields = strings_by_field().keys()

    assert fields >= {*WORDS, "goal", "allowed_files", "test_command", "language", "verify", "stack_trace_head"}
    assert fields >= {"top_failing_tests", "affected_files", "touched_files", "category", "files", "depends_on"}
