"""A reviewed plan that is played by scripted roles, as the core would drive it: every answer judged, then heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schemas import codec
from schemas.base import StepType
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.policy.expansion import DROPPED
from tasks.rules.strategy import MAX_EXPANSION, Answer, Draft, End, Expansion, LivePlan, Question, Setting
from tasks.rules.validation import validate
from tasks.strategies import reviewed_plan
from tasks.text.patterns import expand_globs
from tasks.toolchain.catalogue import CATALOGUE

NOW = 1_790_000_000_000
FILES = ["src/a.py", "src/b.py", "src/c.py", "tests/test_a.py", "docs/a.md", "README.md", "src/auth.py"]
CONTEXT = {"language": "python", "test_command": "pytest", "files": FILES}
PASS = {"id": "qa-001", "scope": "*", "check": "It is right", "severity": "MUST", "status": "PASS"}
FAIL = {**PASS, "status": "FAIL", "finding": "It is wrong"}


def a_goal(workflow: str = "both", **fields: Any) -> Goal:
    given = {name: fields.pop(name) for name in tuple(fields) if name in GIVEN}
    body = {"goal": "Add a greeting", "kind": "reviewed_plan", "allowed_files": FILES, "context": CONTEXT}
    body |= {"reviewed_plan": {"workflow": workflow, **given}}
    return Goal.model_validate(body | fields)


GIVEN = ("severity_schedule", "convergence_cap", "max_iterations", "plan", "review_first", "ask_context")


def diff(path: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 2\n"


def op(verb: str, entity: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": verb, "entity": entity, "value": value, **more}


def overview(version: int = 1, **fields: Any) -> dict[str, Any]:
    return op("set", "overview", {"title": "Greeting", "problem": "Nobody is greeted", **fields}, version=version)


def milestone(number: int, *files: str, **fields: Any) -> dict[str, Any]:
    value = {"number": number, "name": f"Part {number}", "files": list(files), **fields}
    return op("add", "milestone", value, id=f"M-{number:03d}")


def intent(number: int, path: str, owner: int | None = None, **fields: Any) -> dict[str, Any]:
    value = {"milestone": f"M-{owner or number:03d}", "file": path, "behavior": f"Greet {number}", **fields}
    return op("add", "code_intent", value, id=f"CI-{number:03d}")


def change(number: int, path: str, owner: int | None = None, **fields: Any) -> dict[str, Any]:
    value = {"milestone": f"M-{owner or number:03d}", "intent_ref": f"CI-{number:03d}", "file": path}
    return op("add", "code_change", value | {"diff": diff(path)} | fields, id=f"CC-{number:03d}")


def written(number: int) -> dict[str, Any]:
    return op("set", "documentation", {"module_comment": "Greets"}, id=f"M-{number:03d}", version=1)


DESIGN = (
    overview(),
    op("add", "decision", {"decision": "Say hello", "reasoning_chain": "Short -> polite"}, id="DL-001"),
    milestone(1, "src/a.py", requirements=["greet"], acceptance_criteria=["it greets"]),
    milestone(2, "src/b.py", depends_on=["M-001"]),
    intent(1, "src/a.py", decision_refs=["DL-001"]),
    intent(2, "src/b.py"),
)
CODE = (change(1, "src/a.py"), change(2, "src/b.py"))
DOCS = (written(1), written(2))
ANSWERS: dict[str, Any] = {
    "plan-design-execute": {"operations": DESIGN},
    "plan-code-execute": {"operations": CODE},
    "plan-docs-execute": {"operations": DOCS},
}


class Play:
    """A plan in play. `open` are the steps that have not ended; the documents are read back from JSON each time."""

    def __init__(self, goal: Goal, draft: Draft) -> None:
        allowed = expand_globs(goal.allowed_files, goal.context.files).files
        kept = goal.model_dump(mode="json", exclude=DROPPED, exclude_defaults=True)
        self.goal = Goal.model_validate(kept | {"allowed_files": allowed})
        self.ids: set[str] = set()
        self.open: dict[str, PlannedStep] = {}
        self.seen: dict[str, PlannedStep] = {}
        self.order: list[str] = []
        self.phases = list(draft.phases)
        self.question: Question | None = None
        self.halt: Any = None
        self._keep(draft.state, draft.document, draft.steps)

    def _keep(self, state: Any, document: Any, steps: tuple[PlannedStep, ...]) -> None:
        assert len(codec.dumps(state)) < 16_000
        self.state, self.document = codec.loads(codec.dumps(state)), codec.loads(codec.dumps(document))
        new = {step.step_id: step for step in steps}
        assert len(new) == len(steps) <= MAX_EXPANSION
        assert not self.ids & new.keys()
        if steps:
            assert validate(self.goal, steps) == ()
        self.ids |= new.keys()
        self.order += new
        self.open |= new
        self.seen |= new

    @property
    def live(self) -> LivePlan:
        return LivePlan(self.goal, self.state, self.document, NOW)

    @property
    def plan(self) -> Any:
        return self.document["plan"]

    @property
    def row(self) -> Any:
        return self.state["row"]

    def facts(self, step_id: str) -> Any:
        return self.open[step_id].model_dump(mode="json")

    def refusal(self, step_id: str, output: Any) -> str | None:
        before = codec.dumps([self.state, self.document])
        found = reviewed_plan.refusal(self.live, self.facts(step_id), output)
        assert codec.dumps([self.state, self.document]) == before
        return found

    def given(self, step_id: str) -> Any:
        return codec.loads(codec.dumps(reviewed_plan.input_for(self.live, self.facts(step_id))))

    def end(self, step_id: str, output: Any = None, state: str = "DONE", **more: Any) -> Expansion | None:
        step = self.open[step_id]
        if state == "DONE":
            assert self.refusal(step_id, output) is None
        facts = self.facts(step_id)
        more.setdefault("touched_files", step.allowed_files)
        found = reviewed_plan.advance(self.live, End(step_id, facts, state, output, **more), CATALOGUE)
        del self.open[step_id]
        self.unfold(found)
        return found

    def say(self, value: Any) -> str | None:
        found = reviewed_plan.answer(self.live, value, CATALOGUE)
        if isinstance(found, str):
            return found
        self.question = None
        self.unfold(found)
        return None

    def unfold(self, found: Expansion | None) -> None:
        """Apply the expansion that the strategy returned."""
        if found is None:
            return
        assert found.why
        self.phases += found.phases
        self.question, self.halt = found.question or self.question, found.halt
        self._keep(found.state, found.document, found.steps)

    def ready(self) -> list[str]:
        """Return the open steps whose dependencies have ended."""
        return [name for name, step in self.open.items() if self.open.keys().isdisjoint(step.depends_on)]


def begin(goal: Goal) -> Play:
    answer = drafted(goal)
    assert isinstance(answer, Draft), answer
    return Play(goal, answer)


def drafted(goal: Goal) -> Answer:
    return reviewed_plan.draft(goal, CATALOGUE, Setting(now=NOW))


Role = Callable[[Play, str], Any]


def good(play: Play, step_id: str) -> Any:
    """Return the answer of a role that makes no mistakes."""
    step = play.open[step_id]
    if step.controller_task_spec.type is StepType.DRAFT:
        first = not play.state["loops"][play.row.removesuffix("-execute")]["iteration"] > 1
        return ANSWERS[step.phase or ""] if first else {"operations": []}
    if step_id == "reconcile":
        found = [{"id": each["id"], "outcome": "SATISFIED"} for each in play.plan["milestones"]]
        return {"milestones": found, "summary": "As planned"}
    if step.controller_task_spec.type is StepType.REVIEW:
        return {"items": [PASS], "verdict": "PASS"}
    return None


def run(play: Play, role: Role = good, until: str | None = None) -> Play:
    """Let the roles work until nothing is open, or the row `until` is."""
    while play.open and play.row != until:
        step_id = play.ready()[0]
        play.end(step_id, role(play, step_id))
    return play


def failing(**fails: int) -> Role:
    """Return reviewers that fail a phase as often as `fails` says (plan_design=2), then pass it."""
    left = {name.replace("_", "-"): count for name, count in fails.items()}

    def role(play: Play, step_id: str) -> Any:
        phase = play.row.removesuffix("-qr")
        if play.row.endswith("-qr") and left.get(phase, 0) > 0:
            left[phase] -= 1
            return {"items": [FAIL]}
        return good(play, step_id)

    return role


def a_plan(**fields: Any) -> Mapping[str, Any]:
    """A whole plan.json, frozen."""
    found: Mapping[str, Any] = {**run(begin(a_goal("plan"))).plan, **fields}
    return found
