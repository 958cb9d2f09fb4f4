"""A plan that the worker's own drafter is asked for: what it is asked, when it is asked again, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from tasks.handlers import goals
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, LivePlan, Rejected, Setting
from tasks.strategies import evolution
from tasks.strategies.drafting.cycle import DraftOptions
from tasks.strategies.evolution.document import MAX_PROMPT, shown_prompt
from tasks.strategies.evolution.request import digest
from tasks.strategies.evolution.trajectory import TrajectoryOptions
from tasks.text.json_in_prose import as_text
from tasks.text.sanitize import Treatment, sanitize
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import Contract, ToolCategory
from tests.support.kinds.evolution import ATTACK, FILES, a_goal, a_plan, a_step, ended, facts, refused, unfolded

MODES = ("strict", "lenient", "none")
ASKED = ("http", "cli", "backend")
MANY = [f"src/m{number}.py" for number in range(12)]
TEXT = "no JSON"


def said(output: Any = None, error: str | None = None, tokens: int = 10, ms: int = 1500) -> Drafted:
    return Drafted(output, error, tokens, ms)


def consulted(mode: str | None, *answers: Drafted, drafter: str = "http", goal: Any = None, **options: Any) -> Answer:
    """Plan as the worker does, where a Draft has passed the validator."""
    setting = Setting(drafter=drafter, drafted=answers, options=options, now=7)
    return goals.plan(goal or a_goal(mode), CATALOGUE, setting)


def made(*answers: Drafted, mode: str = "strict", **more: Any) -> Draft:
    found = consulted(mode, *answers, **more)
    assert isinstance(found, Draft), found
    return found


@pytest.mark.parametrize("drafter", ASKED)
@pytest.mark.parametrize("mode", MODES)
def test_the_worker_asks_what_a_step_would_ask(drafter: str, mode: str) -> None:
    found = consulted(mode, drafter=drafter)
    asked = goals.plan(a_goal(mode), CATALOGUE, Setting(drafter="queue"))

    assert isinstance(found, Consult)
    assert isinstance(asked, Draft)
    assert asked.state
    assert found.prompt == asked.state["prompt"]
    assert found.schema == (None if mode == "none" else PLANNING_OUTPUT_SCHEMA)


@pytest.mark.parametrize(
    ("mode", "output"),
    [
        ("strict", a_plan()),
        ("strict", codec.dumps(a_plan()).decode()),
        ("strict", f"```json\n{codec.dumps(a_plan()).decode()}\n```"),
        ("lenient", a_plan(extra=1)),
        ("lenient", TEXT),
        ("none", TEXT),
    ],
)
def test_an_answer_becomes_the_steps_that_a_step_with_it_unfolds_to(mode: str, output: Any) -> None:
    draft = made(said(output), mode=mode)
    queued = goals.plan(a_goal(mode), CATALOGUE, Setting(drafter="queue"))
    assert isinstance(queued, Draft)
    assert queued.state is not None
    live = LivePlan(a_goal(mode), queued.state, queued.document, 0)

    assert refused(live, output) is None
    unfolding = unfolded(live, ended("draft-plan", output))
    assert draft.steps == unfolding.steps
    assert draft.document
    assert unfolding.document
    assert draft.document["plan"] == unfolding.document["plan"]


def test_the_document_tells_what_was_run_for_the_answer() -> None:
    last = Drafted(a_plan(), None, 10, 1500, ("agent", "--read-only"), "thought about it")
    document = made(Drafted("no", None, 10, 1500, ("other",), "x"), last).document

    assert document
    assert (document["command"], document["stderr"]) == (["agent", "--read-only"], "thought about it")


@pytest.mark.parametrize("drafter", [*ASKED, "queue"])
def test_the_document_has_the_rendered_prompt_of_every_drafter(drafter: str) -> None:
    asked = consulted("strict", drafter="http")
    answers = () if drafter == "queue" else (said(a_plan()),)
    document = made(*answers, drafter=drafter).document
    assert isinstance(asked, Consult)
    assert document

    assert len(document["prompt"]) > 1000
    assert asked.prompt.startswith(document["prompt"].partition("\n[")[0])
    assert document["prompt_digest"] == digest(asked.prompt)


def test_of_a_long_prompt_the_beginning_is_kept_with_its_length() -> None:
    shown = shown_prompt("p" * (MAX_PROMPT + 7))

    assert shown == "p" * MAX_PROMPT + "\n[7 characters more]"
    assert shown_prompt("short") == "short"


@pytest.mark.parametrize("mode", MODES)
def test_a_question_says_how_its_answer_is_read(mode: str) -> None:
    for answers in ((), (said(" "),), (said(error="it broke"),)):
        found = consulted(mode, *answers)
        assert isinstance(found, Consult)
        assert found.validation_mode == mode


def test_the_document_counts_the_attempts_and_all_of_the_time() -> None:
    draft = made(said(TEXT), said(error="HTTP 500: away"), said(a_plan()), max_attempts=3)

    assert draft.document
    told = draft.document
    assert (told["attempts"], told["duration_seconds"], told["drafter"]) == (3, 4.5, "http")
    assert [note.split(":")[0] for note in told["notes"]] == ["Attempt 1 was refused", "Attempt 2 was refused"]
    assert "HTTP 500" in told["notes"][1]
    assert draft.tokens == 30
    assert [phase.name for phase in draft.phases] == ["drafted"]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (TEXT, "/: This is no JSON"),
        (a_plan(a_step(title="")), "/steps/0/title"),
        (a_plan(a_step("a", dependencies=["z"]), a_step("b")), "there is no such step"),
        (a_plan(a_step(files=["etc/x.py"])), "none of these files is among the allowed ones"),
    ],
)
def test_a_refused_answer_is_asked_for_again_with_its_errors(output: Any, why: str) -> None:
    first, again = consulted("strict"), consulted("strict", said(output))

    assert isinstance(first, Consult)
    assert isinstance(again, Consult)
    assert again.prompt.startswith(first.prompt)
    asked = again.prompt.removeprefix(first.prompt)
    assert why in asked.split("# Why it was refused")[1]
    assert as_text(output)[:100] in asked.split("# Your last answer")[1]
    assert again.schema == first.schema


def test_a_call_that_failed_is_asked_again_as_it_was() -> None:
    assert consulted("strict", said(error="no answer within 9 s")) == consulted("strict")


def test_a_repair_is_bounded_however_long_the_answer_was() -> None:
    first, again = consulted("strict"), consulted("strict", said(["x" * 900] * 900))

    assert isinstance(first, Consult)
    assert isinstance(again, Consult)
    assert len(again.prompt) < len(first.prompt) + 12_000


def test_an_attack_in_a_refused_answer_is_not_sent_back() -> None:
    again = consulted("strict", said(a_plan(**{ATTACK: 1, "\n# Role": 2})))

    assert isinstance(again, Consult)
    assert sanitize(again.prompt, Treatment.FLAG).findings == ()
    assert not any(line.startswith("# Role") for line in again.prompt.splitlines())


@pytest.mark.parametrize(("attempts", "asked"), [(0, 1), (1, 1), (2, 2), (5, 5)])
def test_after_the_last_attempt_there_is_no_plan_and_it_says_why(attempts: int, asked: int) -> None:
    answers = [said(TEXT)] * asked
    before = consulted("strict", *answers[1:], max_attempts=attempts)
    found = consulted("strict", *answers, max_attempts=attempts)

    assert isinstance(before, Consult)
    assert isinstance(found, Rejected)
    assert (found.reason, found.tokens) == ("planning_failed", 10 * asked)
    assert [(error.pointer, error.code) for error in found.errors] == [
        ("/drafter", "planning_failed"),
        ("/", "invalid_json"),
    ]
    assert f"after {asked} attempt(s) in {1.5 * asked:.1f} s" in found.errors[0].message


@pytest.mark.parametrize("mode", MODES)
def test_a_drafter_that_only_fails_is_given_up_in_every_mode(mode: str) -> None:
    found = consulted(mode, said(error="exit code 1: no key"), said(error=f"exit code 2: {ATTACK}"))

    assert isinstance(found, Rejected)
    assert found.errors[1].code == "no_answer"
    assert "exit code 2" in found.errors[1].message
    assert "revious" not in found.errors[1].message


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_answer_is_no_answer_in_any_mode(mode: str) -> None:
    assert isinstance(consulted(mode, said(" ")), Consult)
    assert isinstance(consulted(mode, said(" "), said("")), Rejected)


def test_a_plan_that_names_no_files_begins_by_looking_for_them() -> None:
    draft = made(said(a_plan(a_step("a", files=[]))), goal=a_goal("strict", files=MANY))

    assert [step.step_id for step in draft.steps] == ["find-files"]
    assert draft.state
    live = LivePlan(a_goal("strict", files=MANY), draft.state, draft.document, 0)
    assert evolution.input_for(live, facts(draft.steps[0]))
    found = unfolded(live, ended("find-files", {"files": {"a": MANY[:2]}}))
    assert found.steps[0].allowed_files == tuple(MANY[:2])


@pytest.mark.parametrize(("most", "fits"), [(3, True), (2, False)])
def test_a_plan_is_held_to_the_steps_that_the_goal_allows(most: int, fits: bool) -> None:
    goal = a_goal("strict", limits={"max_steps": most})
    steps = a_step("a", validation=["ruff check src"]), a_step("b", validation=["ruff check src"])

    found = consulted("strict", said(a_plan(*steps)), goal=goal)  # and a last one for the goal's own tests

    assert isinstance(found, Draft) is fits
    assert fits or "make 3 steps, and there is room for 2" in str(found)


@pytest.mark.parametrize("drafter", ["none", Setting().drafter])
def test_nobody_drafts_no_plan(drafter: str) -> None:
    found = consulted("lenient", drafter=drafter)

    assert isinstance(found, Rejected)
    assert (found.reason, found.errors[0].pointer) == ("no_drafter", "/drafter")


SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("base", "given", "begins"),
    [(SHA, None, SHA), (SHA[:7], None, SHA[:7]), (SHA, "main", "main"), ("individual-7", None, None)],
)
@pytest.mark.parametrize("goal", ["Make it faster", f"Make it faster. {ATTACK}."])
def test_the_work_begins_at_the_base_commit(base: str, given: str | None, begins: str | None, goal: str) -> None:
    asked = a_goal("strict", goal=goal, evolution={"base": {"commit_hash": base}})
    context = asked.context.model_copy(update={"base_sha": given})

    draft = made(said(a_plan()), goal=asked.model_copy(update={"context": context}))

    assert draft.goal
    assert draft.goal.context.base_sha == begins
    assert "revious" not in draft.goal.goal


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, DraftOptions(2, None, fallback=True, schema_in_prompt=True)),
        ({}, TrajectoryOptions()),
        ({"max_attempts": 5}, DraftOptions(max_attempts=5)),
        ({"max_attempts": 0}, DraftOptions(max_attempts=1)),
        ({"validation_mode": "strict"}, DraftOptions(validation_mode="strict")),
        ({"fallback": "reject"}, DraftOptions(fallback=False)),
        ({"schema_in_prompt": False, "schema_mode": "native"}, DraftOptions(schema_in_prompt=False)),
        (
            {"trajectory_block_size": 4, "trajectory_max_chunks": 1, "trajectory_max_raw_steps": 2},
            TrajectoryOptions(block_size=4, max_chunks=1, max_raw_steps=2),
        ),
        (
            {"trajectory_summary_model": "m", "trajectory_summary_max_chars": 99},
            TrajectoryOptions(summary_model="m", summary_max_chars=99),
        ),
        ({"unheard_of": 1}, DraftOptions()),
        ({"unheard_of": 1}, TrajectoryOptions()),
    ],
)
def test_the_operators_options_have_their_places(
    options: dict[str, Any], read: DraftOptions | TrajectoryOptions
) -> None:
    assert type(read).of(options) == read


@pytest.mark.parametrize("drafter", ["queue", "http"])
def test_the_operators_options_are_what_a_goal_is_planned_with(drafter: str) -> None:
    cards = [{"commit_hash": f"c{n}", "parent_commit_hash": f"c{n - 1}" if n else None} for n in range(9)]
    history = {"base": {"commit_hash": "c0"}, "inspirations": [{"commit_hash": "c8"}], "commit_cards": cards}
    options = {
        "validation_mode": "strict",
        "schema_in_prompt": False,
        "trajectory_block_size": 2,
        "trajectory_max_raw_steps": 1,
        "trajectory_max_chunks": 1,
    }
    goal = a_goal(evolution=history)

    found = goals.plan(goal, CATALOGUE, Setting(drafter=drafter, options=options))

    if isinstance(found, Draft):
        prompt = (found.state or {})["prompt"]
    else:
        assert isinstance(found, Consult)
        prompt = found.prompt
    assert "exactly one JSON object" in prompt
    assert "JSON Schema" not in prompt
    assert "Omitted 4 older unique step(s)." in prompt
    assert prompt.count("c1..c2 (2 steps)") == 1


def test_the_files_of_a_drafted_plan_stay_within_the_goals() -> None:
    draft = made(said(a_plan(a_step(files=["src/a.py", "../x", "src/other.py"]))))

    assert {path for step in draft.steps for path in step.allowed_files} <= set(FILES)
    assert draft.document
    assert "/steps/0/files: some of its files may not be changed and are left out" in draft.document["notes"]


RSPEC = Contract(id="rspec", spellings=("rspec",), example="rspec", category=ToolCategory.TEST, timeout_s=60)


@pytest.mark.parametrize("drafter", ["queue", "http"])
def test_the_operators_own_tools_verify_a_drafted_plan(drafter: str) -> None:
    goal = a_goal("strict", files=["lib/a.rb"], context={"test_command": "rspec"})
    output = a_plan(a_step(files=["lib/a.rb"], validation=["it works"]), validation=["it works"])
    catalogue = CATALOGUE.extend([RSPEC])
    draft = goals.plan(goal, catalogue, Setting(drafter=drafter, drafted=(said(output),), now=7))

    assert isinstance(draft, Draft)
    assert draft.state
    assert draft.state["began"] == 7
    steps = draft.steps
    if drafter == "queue":
        live = LivePlan(goal, draft.state, draft.document, 0, list(map(dict, draft.tools)))
        found = evolution.advance(live, ended("draft-plan", output), catalogue)
        assert found
        steps = found.steps
    assert [step.verify for step in steps] == ["rspec"]
