"""Campaign goals for tests, and a campaign that is driven through its strategy as the core drives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.rules.strategy import Blocked, Draft, End, Expansion, LivePlan, Rejected, Setting
from tasks.rules.validation import validate
from tasks.strategies import campaign
from tasks.toolchain.catalogue import CATALOGUE

TASK: dict[str, Any] = {
    "seq": "001",
    "slug": "impl-auth",
    "type": "BUILD",
    "delta": ["src/auth.py"],
    "verify": "pytest -q tests/test_auth.py",
    "budget": 7,
    "depends": "none",
}
FILES = ("src/auth.py", "src/api.py", "src/pages.py", "tests/test_auth.py", "tests/test_api.py")


def candidate(path: str, relevance: str = "high", *lines: int) -> dict[str, Any]:
    functions = [{"name": f"function_{line}", "line": line} for line in lines]
    return {"path": path, "relevance": relevance, "functions": functions}


def an_exploration(*candidates: dict[str, Any], **modes: Any) -> dict[str, Any]:
    """Return an exploration that permits a plan at once, unless `modes` replaces one of its parts."""
    shown = candidates or (candidate("src/auth.py", "high", 10, 40), candidate("src/api.py", "medium"))
    return {
        "structure": {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": 12, "language": "python"},
        "pattern": {"status": "ok", "framework": "none", "confidence": 0.5},
        "memory": {"status": "ok"},
        "delta": {"status": "ok", "candidates": list(shown)},
        **modes,
    }


def a_goal(text: str = "Add sessions to the service", **fields: Any) -> Goal:
    """Return a campaign goal; a field that goals do not have goes into its `campaign`."""
    of_goal = {
        name: fields.pop(name) for name in ("allowed_files", "context", "limits", "constraints") if name in fields
    }
    body = {"allowed_files": FILES, "limits": {"max_steps": 200}, **of_goal}
    return Goal.model_validate({"goal": text, "kind": "campaign", "campaign": fields, **body})


def answered(goal: Goal, setting: Setting = Setting()) -> Any:  # noqa: B008  a frozen value
    answer = campaign.draft(goal, CATALOGUE, setting)
    if isinstance(answer, Draft) and not answer.question:
        assert validate(goal, answer.steps, CATALOGUE) == ()
    return answer


def drafted(text: str = "Add sessions to the service", **fields: Any) -> Draft:
    answer = answered(a_goal(text, **fields))
    assert isinstance(answer, Draft), answer
    return answer


def explored(*candidates: dict[str, Any], text: str = "Add sessions to the service", **fields: Any) -> Draft:
    """Return the draft of a campaign whose goal brings its exploration."""
    return drafted(text, exploration=an_exploration(*candidates), **fields)


def codes(answer: Any) -> list[tuple[str, str]]:
    assert isinstance(answer, Rejected), answer
    return [(error.pointer, error.code) for error in answer.errors]


def tasks(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Tasks as goals and drafters write them, numbered in turn; each differs from TASK by one of `changes`."""
    return [{**TASK, "seq": f"{place:03}", **change} for place, change in enumerate(changes, 1)]


def tasks_in(made: Draft | Expansion | Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (made.document or {})["tasks"]
    return found


class Running:
    """A campaign as the core keeps it: every state and document goes through JSON, every unfolding is validated."""

    def __init__(self, goal: Goal, setting: Setting = Setting()) -> None:  # noqa: B008  a frozen value
        draft = answered(goal, setting)
        assert isinstance(draft, Draft), draft
        self.goal = goal.model_copy(update={"campaign": None})
        self.steps: dict[str, PlannedStep] = {step.step_id: step for step in draft.steps}
        self.question = draft.question
        self.phases = [*draft.phases]
        self.keep(draft)

    def keep(self, made: Draft | Expansion) -> None:
        self.state: dict[str, Any] = codec.loads(codec.dumps(made.state))
        self.document: Mapping[str, Any] | None = codec.loads(codec.dumps(made.document))

    @property
    def live(self) -> LivePlan:
        return LivePlan(self.goal, self.state, self.document, now=0)

    def end(self, step_id: str, state: str = "DONE", output: Any = None, **more: Any) -> Expansion | None:
        facts = self.steps[step_id].model_dump(mode="json")
        return self.take(campaign.advance(self.live, End(step_id, facts, state, output, **more), CATALOGUE))

    def refuses(self, step_id: str, output: Any) -> str | None:
        found = campaign.refusal(self.live, self.steps[step_id].model_dump(mode="json"), output)
        return found.reason if isinstance(found, Blocked) else found

    def given(self, step_id: str) -> dict[str, Any]:
        return dict(campaign.input_for(self.live, {"step_id": step_id}) or {})

    def answer(self, value: Any) -> Expansion | str:
        found = campaign.answer(self.live, value, CATALOGUE)
        if not isinstance(found, str):
            self.question = None
            self.take(found)
        return found

    def stuck(self) -> Expansion | None:
        return self.take(campaign.stuck(self.live, CATALOGUE))

    def take(self, found: Expansion | None) -> Expansion | None:
        if found is None:
            return None
        self.keep(found)
        self.phases += found.phases
        self.question = found.question or self.question
        assert not set(self.steps) & {step.step_id for step in found.steps}
        if found.steps:
            assert validate(self.goal, found.steps, CATALOGUE) == ()
        self.steps |= {step.step_id: step for step in found.steps}
        return found

    def progress(self) -> dict[str, str]:
        assert self.document is not None
        return {seq: each["status"] for seq, each in self.document["progress"].items()}
