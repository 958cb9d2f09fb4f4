"""What campaigns bring and keep, through JSON and back; and what explorers of any manner write."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas import codec
from schemas.kinds.campaign import CampaignInput, CampaignPlan, Exploration
from tasks.strategies.campaign.state import CampaignState
from tests.support.kinds.campaign import a_goal, an_exploration, candidate, explored, tasks

SEEDS: dict[str, Any] = {
    "structure": {
        "status": "ok",
        "directories": {"src": "code", "tests": "tests"},
        "test_pattern": "tests/test_*.py",
        "entry_points": ["src/main.py"],
        "config_files": ["pyproject.toml"],
        "file_count": 12,
        "language": "python",
    },
    "pattern": {
        "status": "partial",
        "framework": "FastHTML",
        "confidence": 0.85,
        "idioms": {"required": ["@rt"], "forbidden": ["raw HTML"]},
        "style": {"quotes": "double"},
        "readme_sections": ["Framework Idioms"],
    },
    "memory": {
        "status": "ok",
        "failures": [
            {"name": "f", "cost": 1200, "trigger": "t", "fix": "x", "_relevance": 0.7, "_score": 2, "related": ["g"]}
        ],
        "patterns": [{"name": "p", "saved": 300, "insight": "i"}],
        "similar_campaigns": [{"name": "c"}],
        "total_in_memory": 40,
    },
    "delta": {
        "status": "ok",
        "search_terms": ["login"],
        "candidates": [
            {
                "path": "src/auth.py",
                "lines": "1-80",
                "functions": [{"name": "login", "line": 12}],
                "relevance": "high",
                "confidence": 0.9,
            }
        ],
    },
    "_meta": {"version": 1, "git_sha": "9f1c2d4", "objective": "Add sessions"},
}


def test_what_a_goal_brings_comes_back_as_it_was() -> None:
    body: dict[str, Any] = {
        "objective": "Add sessions",
        "exploration": SEEDS,
        "memory": {"failures": [{"name": "f", "cost": 1, "trigger": None, "fix": None}], "patterns": []},
        "tasks": tasks({"creates": ["src/api.py"], "target_lines": {"src/auth.py": "1-9"}}),
        "framework": "flask",
    }
    read = CampaignInput.model_validate_json(codec.dumps(body))

    assert CampaignInput.model_validate_json(read.model_dump_json()) == read
    assert codec.loads(read.model_dump_json())["exploration"]["_meta"] == SEEDS["_meta"]
    assert a_goal(**body).campaign == read


def test_everything_that_the_seeds_explorers_write_is_read() -> None:
    read = Exploration.model_validate(SEEDS)

    shown = codec.loads(read.model_dump_json(exclude_unset=True))
    assert shown == SEEDS


def test_a_plan_and_its_state_come_back_as_they_were() -> None:
    made = explored(candidate("src/auth.py", "high", 10, 40), framework="flask", objective="x" + "\n## y" * 9)
    document = codec.loads(codec.dumps(made.document))
    fields = {name: document[name] for name in CampaignPlan.model_fields}
    plan, state = CampaignPlan.model_validate(fields), CampaignState.model_validate(made.state)

    assert CampaignPlan.model_validate_json(plan.model_dump_json()) == plan
    assert codec.loads(codec.dumps(plan.model_dump(mode="json", exclude_none=True))) == fields
    assert CampaignState.model_validate_json(codec.dumps(made.state)) == state


@pytest.mark.parametrize("missing", list(CampaignPlan.model_fields))
def test_every_field_of_a_plan_is_required(missing: str) -> None:
    document = {name: (explored().document or {})[name] for name in CampaignPlan.model_fields if name != missing}

    with pytest.raises(ValidationError):
        CampaignPlan.model_validate(document)


@pytest.mark.parametrize("missing", ["seq", "slug", "type", "delta", "verify", "budget", "depends"])
def test_every_task_of_a_plan_has_what_the_seed_asks_for(missing: str) -> None:
    document = dict(explored().document or {})
    (task, *_) = document["tasks"]
    kept = {name: value for name, value in task.items() if name != missing}

    with pytest.raises(ValidationError):
        CampaignPlan.model_validate({**{name: document[name] for name in CampaignPlan.model_fields}, "tasks": [kept]})


@pytest.mark.parametrize(
    "mode",
    [
        {"structure": {"file_count": -1}},
        {"pattern": {"confidence": 1.5}},
        {"pattern": {"confidence": "nan"}},
        {"memory": {"failures": [{"cost": 1}]}},
        {"delta": {"candidates": [{"path": ""}]}},
        {"delta": {"candidates": [candidate("a.py", "certain")]}},
        {"delta": {"candidates": [{"path": "a.py", "functions": [{"name": "f", "line": 0}]}]}},
        {"structure": {"status": "timeout"}},
    ],
)
def test_an_exploration_that_is_none_is_refused(mode: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Exploration.model_validate({**an_exploration(), **mode})


@pytest.mark.parametrize("empty", [None, []])
def test_an_explorer_may_write_null_for_nothing(empty: Any) -> None:
    read = Exploration.model_validate(
        {"structure": {"test_patterns": empty}, "memory": {"failures": empty}, "delta": {"candidates": empty}}
    )

    assert (read.structure, read.memory, read.delta) != (None, None, None)
