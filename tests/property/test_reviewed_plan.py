"""Whatever reviewers and people say, a reviewed plan ends, is never written once frozen, and skips no gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from schemas.kinds.reviewed_plan_answers import ENTITIES
from schemas.kinds.reviewed_plan_files import Plan, QrPhase
from tasks.rules.strategy import End
from tasks.strategies.reviewed_plan import advance
from tasks.strategies.reviewed_plan.integrity import faults
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.examples import few_and_many
from tests.support.kinds.reviewed_plan import ANSWERS, FILES, Play, a_goal, begin, good, run
from tests.support.kinds.reviewed_plan_values import SINGLE
from tests.support.kinds.reviewed_plan_values import VALUES as GOOD

PHASES = [phase.value for phase in QrPhase]
IDS = ("qa-001", "qa-002", "qa-003")
BLOCKS = {"MUST": 10**6, "SHOULD": 4, "COULD": 2}  # severity -> the last iteration at which it blocks
MOST_STEPS = 5 * 2 * 4 * 3 * 5  # gates, rounds, and what a round may have
MOST_TOLD = 1200  # characters of a refusal
MOVES = {("INITIAL", "RETRY"), ("INITIAL", "COMPLETE"), ("RETRY", "RETRY"), ("RETRY", "COMPLETE")}

SEVERITIES = st.dictionaries(st.sampled_from(IDS), st.sampled_from(sorted(BLOCKS)), min_size=1)
VERDICTS = st.lists(st.booleans(), min_size=3, max_size=3)  # which of the items pass
WORDS = st.sampled_from(["PASS", "FAIL", "splendid", None])
DECISIONS = st.sampled_from(["continue", "accept: it will do", "stop", "accept", "perhaps"])
GIVEN = st.fixed_dictionaries(
    {"max_iterations": st.integers(1, 6)}, optional={"convergence_cap": st.none() | st.integers(1, 3)}
)
Draw = Callable[[Any], Any]
ROWS = [*ANSWERS, *(f"{phase}-qr" for phase in PHASES), "reconcile", "impl-execute"]
WORDS_ANYHOW = st.sampled_from(
    [
        "",
        "M-001",
        "DL-001",
        "CI-001",
        "CC-001",
        "src/a.py",
        "../x",
        "overview",
        "qa-001",
        "PASS",
        "TODO",
        "SATISFIED",
        "\ud800",
    ]
) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 10**20) | st.floats() | WORDS_ANYHOW,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS_ANYHOW, inner, max_size=3),
    max_leaves=6,
)
ENOUGH: dict[str, Any] = {**GOOD, **SINGLE, "documentation": {"module_comment": "Greets"}}  # entity -> what makes one
NAMES = st.sampled_from(["M-001", "M-002", "M-003", "DL-001", "DL-002", "CI-001", "CI-003", "CC-001", "R-001", "C-001"])
STRANGE = st.dictionaries(
    st.sampled_from(sorted({"id", "milestone", *(name for value in ENOUGH.values() for name in value)})),
    VALUES,
    max_size=1,
)
VERDICT = st.sampled_from(["PASS", "PASS", "FAIL", "TODO"])


@st.composite
def operations(draw: Draw) -> dict[str, Any]:
    """An operation that may be right: often all of it is, sometimes a field is strange."""
    entity = draw(st.sampled_from([*ENTITIES, "code_change", "documentation", "plan"]))
    value = {**ENOUGH.get(entity, {}), **draw(st.just({}) | STRANGE)}
    named = {"id": draw(NAMES)} if entity not in SINGLE and draw(st.booleans()) else {}
    op = draw(st.sampled_from(["set"] if entity in ("documentation", *SINGLE) else ["add", "add", "set", "remove"]))
    return {"op": op, "entity": entity, "value": value, "version": draw(st.integers(1, 2)), **named}


ITEM = st.builds(
    lambda number, status, more: {"id": f"qa-{number}", "check": "x", "status": status, **WHY[status], **more},
    st.integers(1, 9),
    VERDICT,
    st.just({}) | st.dictionaries(st.sampled_from(["severity", "scope", "finding", "check"]), VALUES, max_size=1),
)
WHY: dict[str, dict[str, str]] = {"PASS": {}, "TODO": {}, "FAIL": {"finding": "It is wrong"}}
JUDGED = st.fixed_dictionaries(
    {"id": st.sampled_from(["M-001", "M-002"]), "outcome": st.sampled_from(["SATISFIED", "NOT_SATISFIED", "PERHAPS"])}
)
OUTPUTS = st.one_of(
    VALUES,
    st.fixed_dictionaries({"operations": st.lists(operations(), max_size=3)}, optional={"more": st.booleans()}),
    st.fixed_dictionaries({"items": st.lists(ITEM, min_size=1, max_size=3)}, optional={"verdict": VALUES}),
    st.fixed_dictionaries({"milestones": st.lists(JUDGED, max_size=3)}),
)


class Reviewed:
    """A play whose reviewers say what is drawn; each turn is held against what it may be."""

    def __init__(self, draw: Draw, **given: Any) -> None:
        self.draw, self.given = draw, given
        self.severities = {phase: draw(SEVERITIES) for phase in PHASES}
        self.said: dict[str, dict[str, bool]] = {}  # phase -> item -> whether it passed when it was last decided
        self.play = begin(a_goal(**given))
        self.fails = 0  # of the open gate, since a person decided something
        self.frozen: Any = None
        self.loops: dict[str, str] = {}

    def run(self) -> Play:
        """Play to the end: nothing is open, and nothing is asked."""
        while self.play.open or self.play.question:
            assert len(self.play.order) <= MOST_STEPS
            if self.play.question:
                self._decide()
            else:
                self._work(self.play.ready()[0])
            self._look()
        return self.play

    def _work(self, step_id: str) -> None:
        phase = self.play.row.removesuffix("-qr")
        if not self.draw(st.integers(0, 19)):
            self._skip(step_id, phase)
        elif phase in PHASES:
            self._review(step_id, phase)
        else:
            self.play.end(step_id, self._answer(step_id))

    def _answer(self, step_id: str) -> Any:
        """Write what is still missing, as far as an earlier phase that was skipped lets it be written."""
        if self.play.row not in ANSWERS:
            return good(self.play, step_id)
        milestones = self.play.plan["milestones"]
        wanted = {
            "plan-design-execute": not milestones,
            "plan-code-execute": any(not each["code_changes"] for each in milestones),
            "plan-docs-execute": any(each["documentation"]["version"] == 1 for each in milestones),
        }
        return ANSWERS[self.play.row] if wanted[self.play.row] else {"operations": []}

    def _skip(self, step_id: str, phase: str) -> None:
        """An operator lets the step be; a review that did not take place opens no gate."""
        records = len(self._history(phase))
        self.play.end(step_id, state="SKIPPED")
        assert [each["verdict"] for each in self._history(phase)[records:]] == ["SKIPPED"] * (phase in PHASES)
        assert (self.play.question is not None) == (phase in PHASES)

    def _review(self, step_id: str, phase: str) -> None:
        iteration = self.play.state["loops"][phase]["iteration"]
        verdicts = dict(zip(IDS, self.draw(VERDICTS), strict=True))
        said = {name: verdicts[name] for name in self.severities[phase]}
        self.said[phase] = self.said.get(phase, {}) | said
        word = self.draw(WORDS)
        if word == "FAIL" and all(self.said[phase].values()):
            word = "PASS"  # the other way round it is refused
        records = len(self._history(phase))
        self.play.end(step_id, {"items": [self._item(phase, *each) for each in said.items()], "verdict": word})
        if len(self._history(phase)) == records:
            assert word == "PASS"
            assert list(self.play.open) == [f"{step_id}-again"]
            assert any(
                not passed and self.severities[phase][name] == "MUST" for name, passed in self.said[phase].items()
            )
            return
        record = self._history(phase)[-1]
        blocking = [
            name for name, passed in self.said[phase].items()
            if not passed and name not in record["accepted"] and iteration <= BLOCKS[self.severities[phase][name]]
        ]  # fmt: skip
        assert (record["iteration"], record["verdict"]) == (
            iteration,
            "FAIL" if blocking and word != "PASS" else "PASS",
        )
        assert sorted(record["blocking"]) == sorted(blocking)
        assert not record["accepted"] or self.given.get("convergence_cap")
        assert all(self.severities[phase][name] != "MUST" for name in record["accepted"])
        self.fails = self.fails + 1 if record["verdict"] == "FAIL" else 0
        asks = self.fails >= self.given["max_iterations"]
        assert (self.play.question is not None) == asks or (self.given.get("convergence_cap") and not asks)

    def _item(self, phase: str, name: str, passed: bool) -> dict[str, Any]:
        verdict = {"status": "PASS"} if passed else {"status": "FAIL", "finding": "It is wrong"}
        return {"id": name, "check": "It is right", "severity": self.severities[phase][name], **verdict}

    def _decide(self) -> None:
        """A person says something; what is no decision leaves the question."""
        asked, self.fails = self.play.question, 0
        if self.play.say(self.draw(DECISIONS)) is not None:
            assert self.play.question is asked
            assert self.play.say("accept: enough was said") is None

    def _look(self) -> None:
        """Hold the plan against what has to be true of it after every turn."""
        plan = self.play.plan
        self.frozen = self.frozen or (plan if plan["frozen_at"] else None)
        assert self.frozen in (None, plan)
        loops = {phase: loop["state"] for phase, loop in self.play.state["loops"].items()}
        was = {phase: self.loops.get(phase, "INITIAL") for phase in loops}
        assert all(was[phase] == loops[phase] or (was[phase], loops[phase]) in MOVES for phase in loops)
        self.loops = loops
        opened = [phase for phase in PHASES if phase in loops]
        assert opened == PHASES[: len(opened)]
        assert all(loops[phase] == "COMPLETE" for phase in opened[:-1])
        assert all(self._history(phase)[-1]["verdict"] in ("PASS", "ACCEPTED") for phase in opened[:-1])
        assert set(self.play.document["qr"]) <= set(opened[-1:])
        assert (plan["frozen_at"] is not None) == (loops.get("plan-docs") == "COMPLETE")

    def _history(self, phase: str) -> list[Any]:
        return [record for record in self.play.document["gate_history"] if record["phase"] == phase]


@few_and_many(40, 150, st.data(), GIVEN)
def whatever_is_said(data: st.DataObject, given_: dict[str, Any]) -> None:
    play = Reviewed(data.draw, **given_).run()

    passed = [record["phase"] for record in play.document["gate_history"] if record["verdict"] in ("PASS", "ACCEPTED")]
    if play.halt is None:
        assert passed == PHASES
        assert play.document["report"]["status"] == "COMPLETED"
        assert play.document["qr"] == {}
    elif play.halt[0] == "plan_unfit":  # its design was skipped
        assert passed == PHASES[:3]
        assert play.document["plan"]["milestones"] == []
    else:
        assert play.halt[0] == "review_stopped"
        assert passed == PHASES[: len(passed)]
        assert play.document["report"]["status"] == "ABORTED"


(
    test_whatever_is_said_the_workflow_ends_and_keeps_its_rules,
    test_whatever_is_said_at_length,
) = whatever_is_said


def written(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What of a plan its roles write: a gate that passes may freeze it."""
    return {name: value for name, value in plan.items() if name not in ("frozen_at", "milestone_dependencies")}


def named(fields: dict[str, Any]) -> dict[str, Any]:
    """An answer that adds a decision with these fields, which are rarely drawn where they matter."""
    return {"operations": [{"op": "add", "entity": "decision", "value": {"decision": "x", **fields}}]}


@lru_cache
def opened(row: str) -> Play:
    """A plan whose open row is this one; nothing below changes it."""
    return run(begin(a_goal()), until=row)


@given(row=st.sampled_from(ROWS), output=OUTPUTS)
@example("plan-design-execute", named({"id": []}))
@example("plan-design-execute", named({"id": {"DL-001": 1}}))
@example("plan-design-execute", named({"milestone": []}))
def test_whatever_a_role_answers_is_taken_whole_or_refused_with_a_reason(row: str, output: Any) -> None:
    play = opened(row)
    step_id = next(iter(play.open))

    why = play.refusal(step_id, output)
    found = advance(play.live, End(step_id, play.facts(step_id), "DONE", output), CATALOGUE)

    assert why is None or 0 < len(why) <= MOST_TOLD
    assert found is not None
    assert found.document is not None
    if why is None and row in ANSWERS:
        assert not list(faults(Plan.model_validate(found.document["plan"]), frozenset(FILES)))
    else:
        assert written(found.document["plan"]) == written(play.plan)
