"""A reviewed plan through the real queue: four roles that know only what their step gives them, and one person."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import RunningWorker
from tests.support.demos import played, processes_of
from tests.support.kinds.reviewed_plan import a_plan, change, op, overview
from tests.support.scripted import HOME, Fleet, Spec
from tests.support.scripts import honest_roles
from tests.support.scripts.reviewed_plan import (
    OWN,
    ROLES,
    Answers,
    Roles,
    a_goal,
)
from worker.agents.agent import named_agent
from worker.cli.commands.app import app
from worker.demo import fleet


def planned(worker: RunningWorker, goal: Mapping[str, Any]) -> tuple[Fleet, str]:
    fleet = Fleet(worker.redis, *ROLES)
    verdict, plan_id = fleet.submit(goal)
    assert verdict == "PLANNED"
    return fleet, plan_id


def planner(worker: RunningWorker, *words: str) -> str:
    """Run the command as a person does."""
    result = CliRunner().invoke(app, [*words], env={"PLANNER_REDIS_URL": worker.url, "COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(worker: RunningWorker, plan_id: str) -> Any:
    return json.loads(planner(worker, "show", plan_id, "--json"))


def told(view: Any, phase: str) -> list[tuple[int, str]]:
    history = view["document"]["gate_history"]
    return [(record["iteration"], record["verdict"]) for record in history if record["phase"] == phase]


def test_a_plan_is_reviewed_frozen_and_carried_out_in_waves(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal())
    roles = Roles(fleet=fleet)

    fleet.work(plan_id, roles)

    view = shown(planner_worker, plan_id)
    assert (view["state"], view["kind"]) == ("COMPLETED", "reviewed_plan")
    assert [spec["step_id"] for spec in fleet.specs] == [
        *("plan-design-execute", "plan-design-qr", "plan-design-execute-r2", "plan-design-qr-r2"),
        *("plan-code-execute", "plan-code-qr", "plan-code-execute-r2", "plan-code-qr-r2"),
        *("plan-docs-execute", "plan-docs-qr"),
        *("impl-m-001", "impl-m-002", "test-wave-1", "impl-m-003", "test-wave-2"),
        *("impl-code-qr", "impl-docs-execute", "impl-docs-qr", "reconcile"),
    ]
    assert {step["state"] for step in view["steps"]} == {"DONE"}
    assert roles.active["impl-m-001"] == {"impl-m-001", "impl-m-002"}
    assert roles.active["impl-m-003"] == {"impl-m-003"}
    for phase in ("plan-design", "plan-code"):
        assert told(view, phase) == [(1, "FAIL"), (2, "PASS")]
    for phase in ("plan-docs", "impl-code", "impl-docs"):
        assert told(view, phase) == [(1, "PASS")]
    document = view["document"]
    assert document["plan"]["frozen_at"]
    assert document["plan_md"].startswith("# Greeting\n")
    assert document["qr"] == {}
    assert [(row["id"], row["wave"], row["outcome"]) for row in document["report"]["milestones"]] == [
        ("M-001", 1, "DONE"), ("M-002", 1, "DONE"), ("M-003", 2, "DONE"),
    ]  # fmt: skip
    assert document["report"]["status"] == "COMPLETED"
    assert view["budget"]["failing_outcomes"]["spent"] == 0  # a review that finds faults is no failure


def test_what_a_mend_changed_is_reviewed_before_the_gate(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal())
    roles = Roles()
    scope = iter(["src/b.py", "src/a.py"])  # the first review leaves out what the mend changed

    def says(spec: Spec) -> Answers:
        if spec["step_id"] == "test-wave-1" and spec["attempt"] == 1:
            return {
                "success": False,
                "failure_evidence": {"category": "TEST_REGRESSION", "affected_files": ["src/a.py"]},
            }
        if spec["step_id"] == "test-wave-1-mend":
            return {"touched_files": ["src/a.py"]}
        if spec["step_id"] == "impl-code-qr":
            item = {"id": "qa-0", "check": "It is right", "severity": "MUST", "status": "PASS", "scope": next(scope)}
            return {"output": {"items": [item], "verdict": "PASS"}}
        return roles(spec)

    view = fleet.work(plan_id, says)

    assert view.state == "COMPLETED", view.halt
    first, second = [spec for spec in fleet.specs if spec["step_id"] == "impl-code-qr"]
    assert first["input"]["mended"] == ["src/a.py"]
    assert "input.mended" in first["controller_task_spec"]["hint"]
    assert "no item is about the changes of a repair" in second["context"]["previous_failure"]["suggestion"]
    assert view.document["report"]["milestones"][0]["mended"] == ["src/a.py"]


def test_a_plan_that_goes_back_often_has_the_steps_for_it(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal("plan", max_iterations=20))
    roles = Roles(stubborn=frozenset({"plan-code"}))

    view = fleet.work(plan_id, roles, until=lambda view: view.waiting is not None)

    assert view.waiting is not None, view.halt
    assert len(view.steps) == 2 * 2 + 2 * 20


def test_what_failed_goes_back_to_the_work_with_its_step(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal("plan"))

    fleet.work(plan_id, Roles())

    (again,) = [spec for spec in fleet.specs if spec["step_id"] == "plan-design-execute-r2"]
    assert again["queue"] == "architect"
    assert "Failed: criteria-M-001 MUST It is right: Nobody can test it" in again["guidance"]
    assert [item["id"] for item in again["input"]["qr"]["failed"]] == [f"criteria-M-00{number}" for number in OWN]


def test_an_operation_that_does_not_fit_fails_its_attempt_and_harms_nothing(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal("plan") | {"limits": {"consecutive_failures": 4}})
    wrong = iter([[op("set", "overview", {"problem": "x"}, version=7)], [change(1, "src/a.py")]])

    def says(spec: Spec) -> Answers:
        if spec["step_id"] == "plan-design-execute" and spec["attempt"] < 3:
            return {"output": {"operations": next(wrong)}}
        return Roles()(spec)

    view = fleet.work(plan_id, says)

    assert view.state == "COMPLETED", view.halt
    first, second, third = fleet.specs[:3]
    assert [spec["attempt"] for spec in (first, second, third)] == [1, 2, 3]
    told = [spec["context"]["previous_failure"] for spec in (second, third)]
    assert [failure["category"] for failure in told] == ["OUTPUT_REFUSED"] * 2
    assert told[0]["suggestion"].startswith("stale: it has version 1, not 7")
    assert told[1]["suggestion"].startswith("foreign: this phase writes")
    assert first["input"]["plan"] == second["input"]["plan"] == third["input"]["plan"]


def test_a_frozen_plan_is_not_written_by_whoever_carries_it_out(planner_worker: RunningWorker) -> None:
    plan = dict(a_plan())
    fleet, plan_id = planned(planner_worker, a_goal("execute", plan=plan))

    def says(spec: Spec) -> Answers:
        tries = spec["step_id"] == "impl-m-001" and spec["attempt"] == 1
        written = {"output": {"operations": [overview(2, title="Mine")]}} if tries else {}
        return {**Roles()(spec), **written}

    fleet.work(plan_id, says)

    view = shown(planner_worker, plan_id)
    assert view["state"] == "COMPLETED", view["halt"]
    assert view["document"]["plan"] == plan
    (again,) = [spec["context"]["previous_failure"] for spec in fleet.specs if spec["attempt"] == 2]
    assert again["suggestion"] == "frozen: plan.json is not written while it is carried out"


def test_a_role_that_never_answers_anything_of_use_ends_in_a_report(planner_worker: RunningWorker) -> None:
    fleet, plan_id = planned(planner_worker, a_goal("plan"))

    fleet.work(plan_id, lambda _: {"output": {"operations": [op("add", "decision", {"decision": "x", "id": []})]}})

    view = shown(planner_worker, plan_id)
    assert [(step["step_id"], step["state"]) for step in view["steps"]] == [("plan-design-execute", "FAILED")]
    assert [spec["attempt"] for spec in fleet.specs] == [1, 2, 3]
    assert (view["halt"]["rule"], view["halt"]["evidence"]["attempts"]) == ("planning_failed", 3)
    (error,) = view["halt"]["evidence"]["errors"]
    assert (error["pointer"], error["code"]) == ("/output", "invalid")
    assert "value.id must be a string" in error["message"]
    assert view["document"]["report"]["status"] == "BLOCKED"


def test_a_plan_that_is_empty_once_it_is_clean_is_rejected(planner_worker: RunningWorker) -> None:
    context = planned(planner_worker, a_goal("execute", plan=dict(a_plan()), context={"task_spec": [GROWS]}))
    assert context[0].view(context[1]).document["context"]["task_spec"] == ["x" * 1999 + "."]
    decisions = [{"id": "DL-001", "decision": "\u200b"}]
    plan = {**a_plan(), "planning_context": {"decision_log": decisions}}

    verdict, _ = Fleet(planner_worker.redis, *ROLES).submit(a_goal("execute", plan=plan))

    assert verdict == "REJECTED"


GROWS = "x" * 1999 + "…"  # cleaned it has three characters more than a line of context.json may have


def stuck(worker: RunningWorker) -> tuple[Fleet, str, Roles]:
    """A plan whose design never passes, as it asks a person."""
    fleet, plan_id = planned(worker, a_goal("plan", max_iterations=2))
    roles = Roles(stubborn=frozenset({"plan-design"}))

    def asks(view: PlanView) -> bool:
        return view.waiting is not None

    view = fleet.work(plan_id, roles, until=asks)
    assert view.state == "EXECUTING"
    return fleet, plan_id, roles


def test_a_must_that_never_passes_is_a_persons_to_accept(planner_worker: RunningWorker) -> None:
    fleet, plan_id, roles = stuck(planner_worker)
    asked = shown(planner_worker, plan_id)["waiting"]
    assert asked["kind"] == "decision"
    assert "never (MUST) It is right: It is not good enough" in asked["questions"]

    planner(planner_worker, "answer", plan_id, "--answer", "accept: we ship it", "--reason", "the team decided")
    fleet.work(plan_id, roles)

    view = shown(planner_worker, plan_id)
    assert view["state"] == "COMPLETED"
    assert told(view, "plan-design") == [(1, "FAIL"), (2, "FAIL"), (2, "ACCEPTED")]
    accepted = next(record for record in view["document"]["gate_history"] if record["verdict"] == "ACCEPTED")
    assert (accepted["accepted"], accepted["reason"]) == (["never"], "we ship it")
    assert view["document"]["plan"]["frozen_at"]


@pytest.mark.parametrize(("said", "state", "iterations"), [("stop: not worth it", "HALTED", 2), ("continue", None, 4)])
def test_a_person_may_stop_the_plan_or_send_the_work_back(
    planner_worker: RunningWorker, said: str, state: str | None, iterations: int
) -> None:
    fleet, plan_id, roles = stuck(planner_worker)

    planner(planner_worker, "answer", plan_id, "--answer", said, "--reason", "the team decided")
    fleet.work(plan_id, roles, until=lambda view: view.waiting is not None and len(_history(view)) == iterations)

    view = shown(planner_worker, plan_id)
    assert len(told(view, "plan-design")) == iterations
    if state:
        assert (view["state"], view["halt"]["rule"]) == (state, "review_stopped")
        assert "not worth it" in view["halt"]["reason"]
        assert view["document"]["report"]["status"] == "ABORTED"


def _history(view: PlanView) -> Any:
    return view.document["gate_history"]


def test_a_person_who_never_answers_lets_the_plan_end_at_its_deadline(planner_worker: RunningWorker) -> None:
    fleet, plan_id, roles = stuck(planner_worker)

    let_time_pass(planner_worker.redis, plan_id)
    fleet.work(plan_id, roles)

    view = shown(planner_worker, plan_id)
    assert (view["state"], view["halt"]["rule"], view["waiting"]) == ("HALTED", "answer_deadline", None)
    assert view["document"]["plan"]["frozen_at"] is None


def let_time_pass(redis: Redis, plan_id: str) -> None:
    """Have the question stand since so long ago that its deadline is over, and the plan looked at now."""
    plan = HOME.plan(plan_id).plan
    found: Any = redis.hget(plan, "live")
    live = codec.loads(found)
    live["question"] |= {"asked": 0, "until": 1}
    redis.hset(plan, "live", codec.dumps(live))
    redis.zadd(HOME.timers, {plan_id: 1})


@pytest.mark.long
@pytest.mark.outages
def test_the_demo_shows_a_gate_that_fails_and_leaves_nothing(place: Path) -> None:
    demo = played(place, "--kind", "reviewed_plan", "--json")

    shown = demo.told
    document = shown["completed"]["document"]
    assert shown["completed"]["state"] == "COMPLETED"
    assert [record["verdict"] for record in document["gate_history"]] == ["FAIL", *["PASS"] * 5]
    assert "calls what M-001 and M-002 make" in document["gate_history"][0]["findings"][0]
    waves = document["plan"]["milestone_dependencies"]["waves"]
    assert [wave["milestones"] for wave in waves] == [["M-001", "M-002"], ["M-003"]]
    assert [row["review"] for row in document["report"]["milestones"]] == ["SATISFIED"] * 3
    assert "+def vat(net: int, country: str) -> int:" in shown["diff"]
    assert shown["tests_passed"] is True
    assert demo.err == ""
    assert not list(processes_of(place))
    assert not list((place / "tmp").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "reviewed_plan", "--agent", " "], "there is no command"),
        (["--kind", "reviewed_plan", "--agent", "'x"], "cannot be split into words"),
        (["--kind", "reviewed_plan", "--agent", "no-such-agent --x"], "no-such-agent is no program"),
        (["--agent", "cat"], "plays the kind reviewed_plan alone"),
        (["--kind", "reviewed_plan", "--agent", "nope.toml"], "nope.toml cannot be read: No such file"),
        (["--kind", "reviewed_plan", "--agent", "wrong.toml"], "wrong.toml: argv: Field required"),
        (["--kind", "reviewed_plan", "--agent", "codex"], "codex: there is no such program on PATH"),
        (["--kind", "reviewed_plan", "--agent", "cat", "--agent-path", "/no/path:rw"], "/no/path:rw: there is no such"),
        (["--kind", "reviewed_plan", "--agent-path", "/usr"], "--agent-path is for the agent of --agent"),
        (["--kind", "reviewed_plan", "--agent-env", "A"], "--agent-env is for the agent of --agent"),
        (["--kind", "reviewed_plan", "--agent", "cat", "--agent-env", "A=b"], "say the name of a variable, as NAME"),
    ],
)
def test_an_agent_that_cannot_play_the_demo_is_told_at_once(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "wrong.toml").write_text("stdin = 'prompt'\n")

    result = CliRunner().invoke(app, ["demo", *words])

    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_the_data_file_of_a_demos_agent_holds_any_command(tmp_path: Path) -> None:
    words = ["echo", "\U0001f600", "é\x7f", 'a "b" \\ c']

    agent = named_agent(fleet.DemoAgent(shlex.join(words)).write(tmp_path))

    assert list(agent.argv) == words


def test_a_command_that_plays_the_demo_has_the_keys_of_models_providers_and_no_other_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "x")

    agent = named_agent(fleet.DemoAgent("cat").write(tmp_path))

    assert {"PATH", "HOME", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"} <= set(given := agent.variables_of_run())
    assert not {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH"} & set(given)
    assert "ANTHROPIC_API_KEY" in agent.login  # verifications do not see it


def test_a_demos_agent_has_the_variables_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(fleet.Fleet, "_start", lambda _self, _name, argv, _settings: started.append(argv))

    fleet.Fleet(tmp_path, {}).start_controllers(
        tmp_path, (), "reviewed_plan", fleet.DemoAgent("cat", (), ("MY_AGENT_KEY",))
    )

    assert len(started) == 2
    assert all("--agent-env=MY_AGENT_KEY" in argv for argv in started)


@pytest.mark.outages
@pytest.mark.parametrize(
    ("first", "strict"), [*(pytest.param(first, False, marks=pytest.mark.long) for first in (0, 1)), (2, True)]
)
def test_an_agent_that_knows_its_prompt_alone_makes_mistakes_and_recovers(
    place: Path, first: int, strict: bool
) -> None:
    memory, root = place / "memory", Path(honest_roles.__file__).parents[3]
    memory.mkdir()
    argv = [sys.executable, honest_roles.__file__, str(memory), str(first)]
    data = f'argv = {json.dumps(argv)}\nreader = "report"\nvariables = ["PYTHONPATH"]\n'
    file = place / "strict.toml"
    file.write_text(f'{data}[options]\nquestion = ["--strict", "{{strict_schema}}"]\n')
    options = ["--kind", "reviewed_plan", "--json", "--agent", str(file) if strict else shlex.join(argv)]
    options += ["--agent-env=PYTHONPATH", *(f"--agent-path={path}" for path in (f"{memory}:rw", root))]

    demo = played(place, *options, PYTHONPATH=str(root))

    shown = demo.told
    document, steps = shown["completed"]["document"], shown["completed"]["steps"]
    assert (shown["completed"]["state"], shown["tests_passed"]) == ("COMPLETED", True)
    assert document["plan"]["frozen_at"]
    assert document["report"]["status"] == "COMPLETED"
    mistakes, again = (memory / "mistakes").read_text().splitlines(), [each for each in steps if each["attempt"] > 1]
    numbers = (memory / "steps").read_text().split()
    assert len(mistakes) == sum(int(each) % honest_roles.EVERY == first for each in numbers) >= 5
    found = [gate["phase"] for gate in document["gate_history"] if gate["verdict"] == "FAIL"]
    assert found[0] == "plan-design"  # where the story forgets something; else only documents are left to a review
    assert set(found[1:]) <= {"impl-docs"}
    assert len(mistakes) == len(again) + len(found[1:])
    assert any(each["step_id"].startswith("impl-m-") for each in again)
    assert not list(processes_of(place))


@pytest.mark.long
@pytest.mark.outages
def test_the_demo_leaves_the_queues_of_a_real_fleet_alone(planner_worker: RunningWorker, place: Path) -> None:
    planned(planner_worker, a_goal("plan"))

    demo = played(place, "--kind", "reviewed_plan", "--json", PLANNER_REDIS_URL=planner_worker.url)

    assert demo.returncode == 1
    assert "The queue architect of this server is in use" in json.loads(demo.out)["problem"]["detail"]
    assert planner_worker.redis.exists(HOME.steps("architect"))
