"""An evolution goal from its draft to its steps: what is refused, what is unfolded, and what becomes of a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemas import codec
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from tasks.rules.strategy import Expansion, LivePlan, Rejected, Setting
from tasks.strategies import evolution
from tasks.strategies.criteria import StepTools, describe_criteria, describe_unchecked
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.evolution import (
    ATTACK,
    FILES,
    a_goal,
    a_plan,
    a_step,
    after,
    drafted,
    ended,
    facts,
    grown,
    refused,
    unfolded,
)

MODES = ("strict", "lenient", "none")
PATIENT = {"consecutive_failures": 5}
MANY = [f"src/m{number}.py" for number in range(12)]


def planned(output: Any, mode: str = "strict", **goal: Any) -> Expansion:
    live = grown(a_goal(mode, **goal))
    assert refused(live, output) is None
    return unfolded(live, ended("draft-plan", output))


def working(output: Any, **goal: Any) -> tuple[LivePlan, Expansion]:
    live = grown(a_goal("strict", **goal))
    found = unfolded(live, ended("draft-plan", output))
    return after(live, found), found


def test_a_goal_becomes_one_step_that_drafts_with_the_prompt_in_its_input() -> None:
    goal = a_goal("strict", evolution={"acceptance_criteria": ["latency below 5 ms"]})

    (step,) = drafted(goal).steps
    given = evolution.input_for(grown(goal), facts(step))

    assert (step.step_id, step.controller_task_spec.type, step.retry_limit) == ("draft-plan", "DRAFT", 1)
    assert given is not None
    assert given["schema"] == PLANNING_OUTPUT_SCHEMA
    assert given["validation_mode"] == "strict"
    assert "latency below 5 ms" in given["prompt"]


def test_its_criteria_are_checked_by_the_step_that_runs_them_or_by_nothing() -> None:
    goal = a_goal("strict", evolution={"acceptance_criteria": ["latency below 5 ms", "pytest"]})
    live = grown(goal)
    found = unfolded(live, ended("draft-plan", a_plan(a_step(), validation=["mypy src", "it is faster"])))
    last = found.steps[-1]
    tools = [tool.model_dump(mode="json") for tool in last.verify_tools]

    criteria = describe_criteria(found.document, [StepTools(last.step_id, "TEST", tools)], CATALOGUE)

    assert {each.text: each.checked_by for each in criteria} == {
        "latency below 5 ms": None,
        "pytest": f"{last.step_id}: pytest",
        "mypy src": f"{last.step_id}: mypy src",
        "it is faster": None,
    }
    assert describe_unchecked(criteria) == "Nothing checks: latency below 5 ms; it is faster."


def test_a_draft_may_use_as_many_tokens_as_its_prompt_and_an_answer_have() -> None:
    short, long = (
        drafted(a_goal("strict", constraints=[f"{n} {'x' * 190}" for n in range(count)])) for count in (0, 20)
    )

    assert short.state
    assert long.state
    room = [each.steps[0].estimate.tokens - len((each.state or {})["prompt"]) // 4 for each in (short, long)]
    assert room == [20_000, 20_000]
    assert short.steps[0].estimate.tokens < long.steps[0].estimate.tokens


def test_the_mode_none_hands_out_no_schema() -> None:
    given = evolution.input_for(grown(a_goal("none")), {"step_id": "draft-plan"})

    assert given is not None
    assert given["schema"] is None
    assert "JSON Schema" not in given["prompt"]


@pytest.mark.parametrize(("attempts", "retries"), [(0, 0), (1, 0), (2, 1), (4, 3), (9, 3)])
def test_a_draft_has_as_many_attempts_as_are_set(attempts: int, retries: int) -> None:
    assert drafted(a_goal(limits=PATIENT), max_attempts=attempts).steps[0].retry_limit == retries


@pytest.mark.parametrize(
    ("attempts", "limits", "retries"),
    [
        (4, {}, 1),
        (2, {"consecutive_failures": 2}, 0),
        (2, {"consecutive_failures": 1}, 0),
        (4, {"consecutive_failures": 3}, 1),
        (9, {"consecutive_failures": 50}, 3),
    ],
)
def test_so_many_attempts_are_made_that_their_failures_do_not_halt_the_plan(
    attempts: int, limits: dict[str, int], retries: int
) -> None:
    draft = drafted(a_goal(limits=limits), max_attempts=attempts)

    assert draft.steps[0].retry_limit == retries
    assert draft.state
    assert draft.state["attempts"] == retries + 1


def test_fields_that_nobody_knows_are_dropped() -> None:
    junk = {"junk": "x" * 2_000_000}
    base = {"commit_hash": "base", "metrics": [{"name": "m", "value": 1} | junk]} | junk

    draft = drafted(a_goal(evolution={"base": base, "inspirations": [base], "commit_cards": [base]} | junk))

    assert len(codec.dumps([draft.state, draft.document])) < 20_000
    assert draft.state
    assert draft.state["request"]["base"]["metrics"][0]["name"] == "m"


@pytest.mark.parametrize("mode", MODES)
def test_a_key_in_an_answer_is_in_no_part_of_the_plan(mode: str) -> None:
    key = "sk-proj-abcdefghijklmnop1234"
    answer: Any = a_plan(a_step(intent=f"Use {key}"), fallback_plan=f"Use {key}") if mode == "strict" else f"Use {key}"

    found = planned(answer, mode)

    assert found.document
    assert "[secret]" in found.document["raw_output"]
    assert key not in str((found.steps, found.document, found.state))


def test_the_mode_is_lenient_unless_the_goal_asks_for_another() -> None:
    modes = [drafted(a_goal(mode)).document for mode in (None, *MODES)]

    assert [document and document["validation_mode"] for document in modes] == ["lenient", *MODES]


@pytest.mark.parametrize(
    ("changed", "pointer", "code"),
    [
        ({"evolution": None}, "/evolution", "no_evolution"),
        ({"allowed_files": []}, "/allowed_files", "no_allowed_files"),
        ({"allowed_files": ["../x"]}, "/allowed_files/0", "path_traversal"),
        ({"context": {"test_command": "rm -rf /"}}, "/context/test_command", "unknown_test_command"),
        ({"context": {}, "allowed_files": ["x.zz"]}, "/context/test_command", "no_verification"),
        ({"limits": {"max_steps": 1}}, "/limits/max_steps", "too_many_steps"),
        ({"goal": ATTACK}, "/evolution/goal", "empty_after_sanitizing"),
    ],
)
def test_what_a_goal_lacks_is_told_at_once(changed: dict[str, Any], pointer: str, code: str) -> None:
    raw = a_goal().model_dump(mode="json") | changed

    answer = evolution.draft(type(a_goal()).model_validate(raw), CATALOGUE, Setting(drafter="queue"))

    assert isinstance(answer, Rejected)
    assert (answer.errors[0].pointer, answer.errors[0].code) == (pointer, code)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("output", [None, "", "  \n", {}, [], "\u200b"])
def test_an_empty_answer_is_refused_in_every_mode(mode: str, output: Any) -> None:
    assert refused(grown(a_goal(mode)), output) == "/: The answer is empty."


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("Just do it", "no JSON"),
        (a_plan(steps=[]), "/steps"),
        (a_plan(extra=1), "/extra"),
        (a_plan(a_step(title="x" * 121)), "/steps/0/title"),
        (a_plan(a_step("a"), a_step("a")), "/steps/1/id"),
        (a_plan(a_step("a", dependencies=["z"]), a_step("b")), "/steps/0/dependencies/0: there is no such step"),
        (a_plan(a_step("a", dependencies=["a"])), "wait for itself"),
        (a_plan(a_step("a", dependencies=["b"]), a_step("b", dependencies=["a"])), "wait for each other: a, b"),
        (a_plan(a_step(files=["src/other.py"]), a_step("b")), "/steps/0/files: none of these files"),
    ],
)
def test_strict_refuses_what_lenient_makes_something_of(output: Any, said: str) -> None:
    why = refused(grown(a_goal("strict")), output)

    assert why is not None
    assert said in why
    assert refused(grown(a_goal("lenient")), output) is None
    assert planned(output, "lenient").steps


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_plan_that_changes_nothing_allowed_is_refused(mode: str) -> None:
    assert refused(grown(a_goal(mode)), a_plan(a_step(files=["src/other.py"])))


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_plan_with_more_steps_than_there_is_room_for_is_refused(mode: str) -> None:
    live = grown(a_goal(mode, limits={"max_steps": 3}))

    assert refused(live, a_plan(a_step("a"), a_step("b"))) is None
    assert refused(live, a_plan(a_step("a"), a_step("b"), a_step("c"))) == (
        "/steps: The plan's files make 3 steps, and there is room for 2."
    )


def test_a_plan_becomes_governed_steps_with_its_document() -> None:
    plan = a_plan(
        a_step("Cache It!", files=["src/a.py", "src/x.py"]),
        a_step("tests", dependencies=["Cache It!"], files=["tests/test_a.py"], validation=["Run `pytest -q`", "look"]),
        handoff_notes=["warm the cache"],
        fallback_plan="Do less",
    )

    found = planned(plan, evolution={"constraints": ["no new dependency"]})

    first, second, *_ = found.steps
    assert (first.step_id, first.allowed_files, first.depends_on) == ("cache-it", ("src/a.py",), ())
    assert (first.risk_level, first.verify, first.rollback_hint is None) == ("MED", "pytest", False)
    assert first.controller_task_spec.hint == "do Cache It!"
    assert first.guidance == "no new dependency; keep the API"
    assert (second.depends_on, second.risk_level, second.verify) == (("cache-it",), "LOW", "pytest -q")
    assert found.document
    assert found.document["plan"]["fallback_plan"] == "Do less"
    assert found.document["plan"]["steps"][0]["step_id"] == "Cache It!"
    assert found.document["notes"] == ["/steps/0/files: some of its files may not be changed and are left out"]
    assert "prompt" not in {name for name, value in found.state.items() if value}


def test_steps_that_name_no_order_are_done_one_after_the_other() -> None:
    steps = planned(a_plan(a_step("a"), a_step("b"), a_step("c"))).steps

    assert [step.depends_on for step in steps] == [(), ("a",), ("b",)]


def test_the_goals_own_tests_run_at_the_end_whatever_the_drafter_chose() -> None:
    found = planned(a_plan(a_step(validation=["ruff check src"]), validation=["mypy src", "it is faster"]))

    step, last = found.steps
    assert (step.verify, last.verify) == ("ruff check src", "pytest && mypy src")
    assert (last.step_id, last.depends_on) == ("verify-plan", ("one",))
    assert last.success_criteria == "mypy src; it is faster"


def test_a_validation_that_is_no_command_is_the_goals_test_command() -> None:
    assert [step.verify for step in planned(a_plan(a_step(validation=["rm -rf /", "looks good"]))).steps] == ["pytest"]


def test_a_step_may_be_called_like_one_of_ours() -> None:
    steps = planned(a_plan(a_step("draft-plan"), a_step("verify-plan"))).steps

    assert [step.step_id for step in steps] == ["draft-plan-2", "verify-plan-2"]


def test_a_step_without_files_has_the_whole_allowlist_if_its_risk_allows() -> None:
    (step,) = planned(a_plan(a_step(files=[]))).steps

    assert step.allowed_files == tuple(FILES)


def test_more_files_than_a_step_may_touch_make_several_steps() -> None:
    steps = planned(a_plan(a_step(files=MANY)), files=MANY).steps

    *patches, check = steps
    assert [(step.step_id, len(step.allowed_files)) for step in patches] == [("one-1", 5), ("one-2", 5), ("one-3", 2)]
    assert [step.depends_on for step in steps] == [(), ("one-1",), ("one-2",), ("one-3",)]
    assert {tool.tool for step in patches for tool in step.verify_tools} == {"py-compile"}
    assert (check.step_id, check.mode, check.verify) == ("one-check", "test", "pytest")


def test_files_of_high_risk_are_changed_apart_and_in_two_phases() -> None:
    files = ["migrations/0001.py", "src/a.py"]

    *steps, check = planned(a_plan(a_step(files=files)), files=files).steps

    assert (check.step_id, check.mode) == ("one-check", "test")
    assert [(step.allowed_files, step.risk_level, step.phase) for step in steps] == [
        (("migrations/0001.py",), "HIGH", "scaffold"),
        (("migrations/0001.py",), "HIGH", "fill"),
        (("src/a.py",), "MED", None),
    ]


def looked_for() -> tuple[LivePlan, Expansion]:
    live = grown(a_goal("strict", files=MANY))
    plan = a_plan(a_step("a", files=[]), a_step("b", files=[]), a_step("c", files=MANY[:1]))
    found = unfolded(live, ended("draft-plan", plan))
    return after(live, found), found


def test_steps_without_files_wait_for_somebody_to_find_them() -> None:
    live, found = looked_for()

    (step,) = found.steps
    given = evolution.input_for(live, facts(step))
    assert (step.step_id, step.controller_task_spec.type) == ("find-files", "EXPLORE")
    assert given is not None
    assert given["allowed_files"] == MANY
    assert [each["step_id"] for each in given["steps"]] == ["a", "b"]


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("as_text", [True, False])
def test_null_stands_for_what_may_be_left_out(mode: str, as_text: bool) -> None:
    live = grown(a_goal(mode))
    plan = a_plan(a_step("a", references=None, dependencies=None, risks=None), handoff_notes=None, fallback_plan=None)
    output = codec.dumps(plan).decode() if as_text else plan

    found = unfolded(live, ended("draft-plan", output))

    assert refused(live, output) is None
    assert found.steps[0].step_id == "a"
    assert refused(live, a_plan(a_step("a", title=None))) if mode == "strict" else True


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ({"files": {"a": ["src/m1.py", "src/no.py"], "b": ["./src/m2.py"]}}, [("src/m1.py",), ("src/m2.py",)]),
        ({"a": ["src/m1.py"], "b": ["src/m2.py"]}, [("src/m1.py",), ("src/m2.py",)]),
        (["src/m3.py", 7, None], [("src/m3.py",), ("src/m3.py",)]),
        ({"files": ["src/m3.py"]}, [("src/m3.py",), ("src/m3.py",)]),
        ({"files": {"a": ["src/m1.py"], "b": "src/m2.py"}}, [("src/m1.py",), ()]),
    ],
)
def test_the_files_that_were_found_are_held_against_the_allowlist(output: Any, files: list[tuple[str, ...]]) -> None:
    live, _ = looked_for()

    assert refused(live, output, "find-files") is None
    steps = unfolded(live, ended("find-files", output)).steps

    assert [step.allowed_files for step in steps[:2]] == files
    assert steps[2].allowed_files == ("src/m0.py",)
    assert [step.mode for step in steps[:2]] == ["patch" if each else "read_only" for each in files]
    assert {step.answers_from[-1:] for step in steps if step.mode != "test"} == {("find-files",)}


@pytest.mark.parametrize(
    "output", [None, "", {}, [], 7, {"files": 7}, {"files": {"a": ["src/no.py"]}}, ["/etc/passwd"]]
)
def test_where_nothing_allowed_was_found_the_search_is_refused(output: Any) -> None:
    live, _ = looked_for()

    assert refused(live, output, "find-files") == "None of these files is among the allowed ones."


@pytest.mark.parametrize("mode", MODES)
def test_when_its_last_attempt_failed_the_plan_halts_and_says_why(mode: str) -> None:
    failure = {"category": "OUTPUT_REFUSED", "suggestion": "/steps: too long"}
    live = grown(a_goal(mode, limits=PATIENT), max_attempts=3)

    found = unfolded(live, ended("draft-plan", state="FAILED", failure=failure))

    assert found.halt is not None
    rule, reason, evidence = found.halt
    assert (rule, reason) == ("planning_failed", "could not produce a valid plan after 3 attempt(s)")
    assert evidence["last_error"] == failure


def test_the_document_counts_the_attempts_and_all_of_the_time() -> None:
    before = grown(a_goal("strict"))
    live = replace(before, now=9500, state={**before.state, "began": 2000})

    found = unfolded(live, ended("draft-plan", a_plan(), attempt=2))

    assert found.document
    told = found.document
    assert (told["attempts"], told["duration_seconds"], told["drafter"]) == (2, 7.5, "queue")
    assert found.phases[0].status == "The plan is drafted: 1 step(s), attempt 2."


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_halt_names_the_attempts_that_there_were(attempt: int) -> None:
    found = unfolded(
        grown(a_goal(limits=PATIENT), max_attempts=4), ended("draft-plan", state="FAILED", attempt=attempt)
    )

    assert found.halt
    _, reason, evidence = found.halt
    assert reason == f"could not produce a valid plan after {attempt} attempt(s)"
    assert (evidence["value"], evidence["limit"], evidence["limit_name"]) == (attempt, 4, "max_attempts")


@pytest.mark.parametrize(("most", "why"), [(6, None), (4, "/steps: The plan's files make 4 steps")])
def test_files_that_make_too_many_steps_are_refused(most: int, why: str | None) -> None:
    live = grown(a_goal("strict", files=MANY, limits={"max_steps": most}))
    plan = a_plan(a_step("a", files=[]))
    found = after(live, unfolded(live, ended("draft-plan", plan)))

    told = refused(found, {"files": {"a": MANY}}, "find-files")  # a step may touch five files; and a check
    fits = refused(found, {"files": {"a": MANY[:5]}}, "find-files")

    assert fits is None
    assert (told is None) if why is None else (told or "").startswith(why)


def test_a_plan_whose_draft_was_skipped_halts() -> None:
    found = unfolded(grown(a_goal()), ended("draft-plan", state="SKIPPED"))

    assert found.halt == (
        "planning_failed",
        "draft-plan was skipped, and there is no plan without it",
        {
            "step_id": "draft-plan",
            "attempts": 2,
            "last_error": None,
            "value": 2,
            "limit": 2,
            "limit_name": "max_attempts",
        },
    )


def test_a_plan_whose_search_failed_halts() -> None:
    live, _ = looked_for()

    assert unfolded(live, ended("find-files", state="FAILED")).halt


@pytest.mark.parametrize("mode", ["lenient", "none"])
def test_free_text_becomes_one_governed_step(mode: str) -> None:
    live = grown(a_goal(mode, evolution={"acceptance_criteria": ["faster"], "constraints": ["no cache"]}))
    text = f"Inline the loop.\n{ATTACK} and push to main." + " more" * 2000

    assert refused(live, text) is None
    found = unfolded(live, ended("draft-plan", text))

    (step,) = found.steps
    assert step.allowed_files == tuple(FILES)
    assert (step.verify, step.risk_level, step.success_criteria) == ("pytest", "MED", "faster")
    assert found.document
    assert "revious" not in str(found.document)
    assert len(found.document["raw_output"]) <= 8000
    assert mode == "lenient" or "no schema was asked for" in found.document["plan"]["handoff_notes"][0]


def test_where_all_steps_failed_the_fallback_plan_is_carried_out_once() -> None:
    live, _ = working(a_plan(a_step(files=["src/b.py"]), fallback_plan="Only memoise"))

    found = evolution.stuck(live, CATALOGUE)

    assert found is not None
    (step,) = found.steps
    assert (step.step_id, step.allowed_files, found.replaces) == ("fall-back", ("src/b.py",), True)
    assert step.intent.endswith("Only memoise")
    assert evolution.stuck(after(live, found), CATALOGUE) is None


def test_the_fallback_plan_is_split_as_any_change_is() -> None:
    live, _ = working(a_plan(a_step("fall-back-1", files=MANY), fallback_plan="Less"), files=MANY)

    found = evolution.stuck(live, CATALOGUE)

    assert found is not None
    ids = [step.step_id for step in found.steps]
    assert len(ids) == len(set(ids)) == 3
    assert not set(ids) & set(live.state["ids"])


def test_there_is_no_fallback_without_a_plan_for_it() -> None:
    live, _ = working(a_plan())

    assert evolution.stuck(live, CATALOGUE) is None
    assert evolution.stuck(grown(a_goal()), CATALOGUE) is None


def test_there_is_no_fallback_where_a_step_has_changed_something() -> None:
    live, _ = working(a_plan(a_step("a"), a_step("b"), fallback_plan="Less"))
    changed = unfolded(live, ended("a", mode="patch"))

    assert changed.steps == ()
    assert evolution.stuck(after(live, changed), CATALOGUE) is None
    assert unfolded(after(live, changed), ended("b", mode="patch")).steps == ()


def test_a_language_known_by_its_listing_is_not_forgotten() -> None:
    goal = a_goal("strict", files=["Makefile"], context={"files": ["a.go", "b.go"]})
    live = grown(goal)
    plan = a_plan(a_step(files=["Makefile"], validation=["it builds"]), validation=["it works"])

    (step,) = unfolded(live, ended("draft-plan", plan)).steps

    assert step.verify.startswith("go test")


def test_an_evolution_plan_asks_no_questions() -> None:
    assert isinstance(evolution.answer(grown(a_goal()), "yes", CATALOGUE), str)
