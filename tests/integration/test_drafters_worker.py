"""Tasks drafted over HTTP by real workers: from a goal to the end of its plan, and what becomes of every trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import connect, wait_until
from tests.support.drafting import ATTACK, PLAN, USELESS, a_goal, begin, drafting, environment, events, passing, phases
from tests.support.kinds.evolution import a_plan as an_evolution_plan
from tests.support.kinds.evolution import an_evolution
from tests.support.llm_server import LlmServer, Reply, llm_server
from tests.support.scripted import Fleet
from worker.store import keys


@pytest.fixture(scope="module")
def llm() -> Iterator[LlmServer]:
    with llm_server() as server:
        yield server


@pytest.fixture(scope="module")
def crew(server_url: str, llm: LlmServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
        with drafting(
            server_url,
            tmp_path_factory.mktemp("crew"),
            **environment(llm, LLM_TIMEOUT_S="120", PLANNING_TRAJECTORY_SUMMARIES="2"),
        ):
            yield client


@pytest.fixture
def fleet(crew: Redis, llm: LlmServer) -> Fleet:
    llm.calls.clear()
    llm.go_on.clear()
    return Fleet(crew)


def test_a_task_is_drafted_and_completed_and_its_tokens_are_in_the_budget(fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [Reply(codec.dumps(PLAN).decode(), tokens=(700, 77))]

    verdict, plan_id = fleet.submit(a_goal())
    view = fleet.work(plan_id, passing)

    assert verdict == "PLANNED"
    assert view.state == "COMPLETED"
    assert [step.step_id for step in view.steps] == ["read-rates", "round", "verify-plan"]
    assert view.budget.tokens.spent == 777 + 100 * len(view.steps)
    assert phases(fleet.redis, plan_id) == [("drafted", "The plan is drafted: 3 step(s).")]
    (prompt,) = llm.prompts
    assert "| Fix the rounding of amounts in billing" in prompt
    assert ATTACK not in prompt


def test_what_a_drafter_says_is_governed_like_anything_from_outside(fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [Reply(codec.dumps(PLAN).decode())]

    _, plan_id = fleet.submit(a_goal())
    fleet.work(plan_id, passing)

    specs = {spec["step_id"]: spec for spec in fleet.specs}
    assert specs["read-rates"]["mode"] == "read_only"
    assert specs["round"]["allowed_files"] == ["src/billing.py"]
    assert [tool["argv"] for tool in specs["round"]["verify_tools"]] == [["pytest", "tests/test_billing.py"]]
    assert ATTACK not in specs["round"]["intent"]
    assert [tool["argv"] for tool in specs["verify-plan"]["verify_tools"]] == [["pytest"]]
    assert "evil.example" not in str([spec["verify_tools"] for spec in fleet.specs])


def test_a_draft_that_is_wrong_is_mended_by_its_drafter(fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [Reply('{"summary": "Round once", "steps": [', tokens=(10, 1)), Reply(codec.dumps(PLAN).decode())]

    _, plan_id = fleet.submit(a_goal())
    view = fleet.view(plan_id)

    assert len(llm.calls) == 2
    assert "This is no JSON" in llm.prompts[1]
    assert '| {"summary": "Round once", "steps": [' in llm.prompts[1]
    assert view.budget.tokens.spent == 11 + 42
    assert [name for name, _ in phases(fleet.redis, plan_id)] == ["drafted"]


def test_a_draft_that_is_refused_twice_is_replaced_by_the_template_plan(fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [USELESS]

    verdict, plan_id = fleet.submit(a_goal())
    view = fleet.work(plan_id, passing)

    ((name, why),) = phases(fleet.redis, plan_id)
    assert (verdict, view.state) == ("PLANNED", "COMPLETED")
    assert len(llm.calls) == 2
    assert name == "fallback"
    assert "at least 1 item" in why
    assert len(view.steps) > 1
    assert "verify-plan" not in [step.step_id for step in view.steps]
    assert view.budget.tokens.spent == 2 * 56 + 100 * len(view.steps)


@pytest.mark.parametrize(
    "reply", [Reply(status=401, error="who are you?"), Reply(status=429, headers=(("Retry-After", "900"),))]
)
def test_a_drafter_that_does_not_answer_is_not_asked_again(reply: Reply, fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [reply]

    verdict, plan_id = fleet.submit(a_goal())

    assert verdict == "PLANNED"
    ((name, why),) = phases(fleet.redis, plan_id)
    assert name == "fallback"
    assert f"HTTP {reply.status}" in why
    assert len(llm.calls) == 1
    assert fleet.view(plan_id).budget.tokens.spent == 0


def test_what_the_tokens_of_a_plan_do_not_pay_for_is_not_asked(fleet: Fleet, llm: LlmServer) -> None:
    llm.script[:] = [Reply('{"summary": "Round once", "steps": [', tokens=(199_900, 50))]

    long = "Fix the rounding of amounts in billing. " * 60
    _, plan_id = fleet.submit(a_goal(goal=long, limits={"tokens": 200_000}))

    ((name, why),) = phases(fleet.redis, plan_id)
    assert name == "fallback"
    assert len(llm.calls) == 1
    assert "it was not asked: of the plan's 200000 tokens 50 are left" in why


def test_a_drafter_is_asked_once_for_the_summary_of_a_chunk_and_later_goals_of_the_tenant_read_it(
    fleet: Fleet, llm: LlmServer
) -> None:
    history = {"kind": "evolution", "evolution": an_evolution(30).model_dump(mode="json")}
    body = {**a_goal(), **history, "allowed_files": ["src/a.py"]}
    plan = Reply(codec.dumps(an_evolution_plan()).decode(), tokens=(100, 0))
    llm.script[:] = [Reply("It parsed faster.", tokens=(7, 0)), Reply("", status=400), plan]

    _, first = fleet.submit(body)

    titles = [prompt.splitlines()[0] for prompt in llm.prompts]
    assert [title.startswith("Summarise what these commits changed") for title in titles] == [True, True, False]
    assert "c1..c8 (8 steps): It parsed faster." in llm.prompts[-1]
    assert "c9..c16 (8 steps): c9: change 9 | c10" in llm.prompts[-1]
    assert fleet.work(first, passing).budget.tokens.spent % 100 == 7
    llm.calls.clear()
    llm.script[:] = [Reply("It cached."), Reply("It sorted."), plan]

    fleet.submit({**body, "goal": "Look at fewer titles"})
    fleet.redis.xadd(keys.GOALS, {"data": codec.dumps({**body, "tenant": "other", "goal_id": "others"})})
    wait_until(lambda: len(llm.prompts) == 6, what="the goal of the other tenant is drafted")

    asked = [prompt.startswith("Summarise") for prompt in llm.prompts]
    assert asked[:3] == [True, True, False]
    assert "| c1: change 1\n" not in llm.prompts[0] + llm.prompts[1]
    texts = ("c1..c8 (8 steps): It parsed faster.", "c9..c16 (8 steps): It cached.", "c17..c24 (8 steps): It sorted.")
    assert all(text in llm.prompts[2] for text in texts)
    assert asked[3:] == [True, True, False], "another tenant reads none of them"
    llm.calls.clear()
    llm.script[:] = [plan]

    fleet.submit({**body, "goal": "Look at no title twice"})

    assert len(llm.prompts) == 1


def drafts(*answers: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A controller whose agent answers the DRAFT step so, one answer an attempt, and does all else well."""

    def says(spec: dict[str, Any]) -> dict[str, Any]:
        if spec["controller_task_spec"]["type"] != "DRAFT":
            return passing(spec)
        return {"output": answers[spec["attempt"] - 1]}

    return says


def test_a_controller_drafts_where_the_goal_asks_for_the_queue(fleet: Fleet, llm: LlmServer) -> None:
    verdict, plan_id = fleet.submit(a_goal(drafter="queue"))
    view = fleet.work(plan_id, drafts("This is no plan.", PLAN))

    first, second, *_ = fleet.specs
    assert (verdict, view.state) == ("PLANNED", "COMPLETED")
    assert [step.step_id for step in view.steps] == ["draft-plan", "read-rates", "round", "verify-plan"]
    assert "| Fix the rounding of amounts in billing" in first["input"]["prompt"]
    assert first["input"]["schema"]["required"] == ["summary", "steps"]
    assert second["step_id"] == "draft-plan"
    assert "This is no JSON" in second["context"]["previous_failure"]["suggestion"]
    assert phases(fleet.redis, plan_id) == [("drafted", "The plan is drafted: 3 step(s).")]
    assert llm.calls == []


def test_a_draft_of_a_controller_that_is_refused_twice_is_replaced_too(fleet: Fleet) -> None:
    _, plan_id = fleet.submit(a_goal(drafter="queue"))
    view = fleet.work(plan_id, drafts("This is no plan.", {"summary": "Nor is this", "steps": []}))

    states = {step.step_id: step.state for step in view.steps}
    assert view.state == "COMPLETED"
    assert states.pop("draft-plan") == "FAILED"
    assert set(states.values()) == {"DONE"}
    ((name, why),) = phases(fleet.redis, plan_id)
    assert name == "fallback"
    assert "at least 1 item" in why


def test_a_drafter_that_is_not_enabled_is_refused(fleet: Fleet, llm: LlmServer) -> None:
    verdict, plan_id = fleet.submit(a_goal(drafter="cli"))

    view = fleet.view(plan_id)
    assert verdict == "REJECTED"
    assert view.halt is not None
    assert view.halt.reason == "drafter_not_enabled"
    assert llm.calls == []


def test_other_goals_are_planned_by_template_and_nobody_is_asked(fleet: Fleet, llm: LlmServer) -> None:
    goal = a_goal()
    del goal["drafter"]

    verdict, plan_id = fleet.submit(goal)

    assert verdict == "PLANNED"
    assert llm.calls == []
    assert fleet.view(plan_id).budget.tokens.spent == 0
    assert phases(fleet.redis, plan_id) == []


@pytest.mark.long
@pytest.mark.outages
def test_a_draft_can_be_cancelled_while_other_plans_go_on(fleet: Fleet, llm: LlmServer) -> None:
    other = a_goal()
    del other["drafter"]
    _, busy = fleet.submit(other)
    llm.script[:] = [Reply(codec.dumps(PLAN).decode(), waits=True)]

    plan_id = begin(fleet, llm, "goal-to-cancel")
    assert fleet.view(plan_id).state == "CREATED"
    assert fleet.work(busy, passing).state == "COMPLETED"  # its outcomes are applied meanwhile
    fleet.order(plan_id, "cancel")
    wait_until(lambda: fleet.view(plan_id).state == "REJECTED", what="the plan is cancelled")
    wait_until(lambda: not fleet.redis.xlen(keys.GOALS), what="the goal is done with")
    found: Any = fleet.verdict("goal-to-cancel")

    assert found.verdict == "REJECTED"
    assert fleet.view(plan_id).state == "REJECTED"
    assert [each["type"] for each in events(fleet.redis, plan_id)].count("dev.planner.plan.ready.v1") == 0
