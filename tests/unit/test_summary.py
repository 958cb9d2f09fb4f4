"""The page of Markdown about a plan: complete, small enough, and nothing from outside means anything on it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.base import GoalVerdict
from schemas.plan import GoalAnswer, PlanView
from worker.render.explanation import explanation
from worker.render.mermaid import MAX_EDGES, MAX_NODES, flowchart
from worker.render.result import result_of
from worker.render.summary import MAX_BYTES, code, page_of_goal, page_of_plan

HOSTILE = (
    "</code>`` ` <img src=x onerror=alert(1)> | \\| [a](javascript:x) ![](https://e.example) @ada #1\n## b \x1b[31m"
)
LINE = {"limit": None, "reserved": 0, "spent": 7}
LINES = dict.fromkeys(("tokens", "patch_cycles", "failing_outcomes", "wall_clock_s"), LINE)


def step(step_id: str, **more: Any) -> dict[str, Any]:
    return {
        "step_id": step_id, "state": "DONE", "attempt": 1, "depends_on": (), "allowed_files": ("a.py",), "title": "Fix",
        "verify": "pytest", "risk_level": "LOW", "mode": "patch", "type": "PATCH", "queue": "default", **more,
    }  # fmt: skip


def view(*steps: dict[str, Any], **more: Any) -> PlanView:
    known = {
        "plan_id": "plan_3c-0199aaaabbbbccccddddeeeeffff0000", "goal_id": "ci-1", "tenant": "default", "repo": None,
        "kind": "task", "goal": "Fix b", "state": "HALTED", "revision": 0, "paused": False, "waiting": None,
        "halt": None, "budget": LINES, "counts": {}, "created_at": "2026-11-23T10:00:00Z",
        "ended_at": "2026-11-23T10:03:10Z", "steps": steps, **more,
    }  # fmt: skip
    return PlanView.model_validate(known)


def page(plan: PlanView, attempts: dict[str, list[dict[str, Any]]] | None = None) -> str:
    result = result_of(plan, (), {}, {}, datetime(2026, 11, 23, 11, tzinfo=UTC))
    return page_of_plan(plan, explanation(plan, attempts or {}, None), result)


def test_a_page_has_state_steps_graph_budget_and_explanation() -> None:
    halt = {
        "rule": "budget",
        "reason": "tokens are spent",
        "evidence": {"policy_version": 1, "events": [], "unblock": "top up"},
    }
    steps = (step("look"), step("fix", state="FAILED", depends_on=("look",), verified=False))
    text = page(view(*steps, halt=halt))

    assert text.startswith("## ❌ Planner: HALTED after 3 min\n\nGoal: `Fix b`\n")
    assert "rule `budget`: `tokens are spent`" in text
    assert "| `fix` | ✘ FAILED (not verified) | 1 | LOW | `Fix` | `a.py` | `pytest` |" in text
    assert '```mermaid\nflowchart TD\n    s0["look<br/>DONE"]:::DONE\n' in text
    assert "    s0 --> s1\n" in text
    assert "| wall clock (s) | 7 |  |" in text
    assert "  to go on: top up\n" in text


def test_a_goal_is_told_by_its_record_alone() -> None:
    ended = {"state": "HALTED", "halt_rule": "manual", "halt_reason": "by ada", "ended_at": "2026-11-23T10:03:10Z"}
    record = GoalAnswer.model_validate(
        {"goal_id": "ci-1", "plan_id": "plan_1", "verdict": GoalVerdict.PLANNED, "reason": "", **ended}
    )

    assert page_of_goal(record) == (
        "## ❌ Planner: HALTED\n\n- goal `ci-1`\n- plan `plan_1`\n- ended at `2026-11-23T10:03:10Z`\n\n"
        "rule `manual`: `by ada`\n"
    )


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("https://forge.example/acme/shop/pull/7", "<https://forge.example/acme/shop/pull/7>"),
        ("javascript:alert(1)", "`javascript:alert(1)`"),
        ("https://forge.example/a> <b", "`https://forge.example/a> <b`"),
    ],
)
def test_a_pull_request_is_a_link_only_where_its_address_is_a_plain_one(address: str, written: str) -> None:
    told = page(view(branch="planner/ci-1", pull_request=address))

    assert f"Branch: `planner/ci-1`\n\nPull request: {written}\n" in told


def live(text: str) -> str:
    """Leave of a page what a reader of Markdown would not take as code, text of our own or a character reference."""
    text = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`|<code>[^<]*</code>|</?(?:details|summary)>", "", text)


@pytest.mark.parametrize("field", ["goal", "goal_id", "plan_id", "paused_by", "unverified"])
def test_hostile_words_about_a_plan_mean_nothing(field: str) -> None:
    assert not re.search(r"[<`\\@\[\x1b]|javascript|e\.example", live(page(view(**{field: HOSTILE}))))


def test_hostile_words_of_steps_questions_halts_and_evidence_mean_nothing() -> None:
    halt = {"rule": "manual", "reason": HOSTILE, "evidence": {"policy_version": 1, "events": [], "unblock": HOSTILE}}
    waiting = {"kind": "approval", "questions": [HOSTILE]}
    steps = [step("fix", title=HOSTILE, verify=HOSTILE, allowed_files=(HOSTILE,))]
    attempt = {"at": "t", "attempt": 1, "result": "FAILED", "category": "UNKNOWN", "reason": f"{HOSTILE}\n````"}
    text = page(view(*steps, halt=halt, waiting=waiting), {"fix": [attempt]})

    assert not re.search(r"[<`\\@\[\x1b]|javascript|e\.example", live(text))
    row = next(line for line in text.splitlines() if line.startswith("| `fix`"))
    assert row.count("|") == 8


@pytest.mark.parametrize("text", [HOSTILE, "a`b", "`", "\\", "a|b", "x" * 500, "é`|" * 99, "a_b *c*"])
def test_a_text_is_code_without_an_end_of_its_own(text: str) -> None:
    written = code(text)

    assert re.fullmatch(r"`[^`|\\\n]+`|<code>[^<>`|\\\n]*</code>", written)
    assert live(written) == ""


@pytest.mark.parametrize("letter", ["`", "€", "\U0001f600", "<", "\n"])
def test_the_largest_page_is_smaller_than_what_a_job_may_write(letter: str) -> None:
    text = letter * 5000
    many = {"title": text, "verify": text, "allowed_files": (text,) * 10}
    before = [f"s-{number}" for number in range(300)]
    steps = [step(name, **many, depends_on=before[:number]) for number, name in enumerate(before)]
    attempt = {"at": "t", "attempt": 1, "result": "FAILED", "category": "UNKNOWN", "reason": text}
    waiting = {"kind": "approval", "questions": [text] * 500}
    halt = {"rule": text, "reason": text, "evidence": {"policy_version": 1, "events": [], "unblock": text}}
    plan = view(*steps, goal=text, halt=halt, waiting=waiting, paused_by=text, unverified=text)

    written = page(plan, {each.step_id: [attempt] * 20 for each in plan.steps})

    assert len(written.encode()) < MAX_BYTES
    assert "... and 200 more steps." in written
    assert "The graph shows the first 100 steps." in written


def test_a_graph_has_no_more_than_a_renderer_takes() -> None:
    wide = [(f"s-{number}", "", [f"s-{before}" for before in range(number)]) for number in range(300)]
    graph = flowchart(wide)

    assert (graph.count('["'), graph.count("-->")) == (MAX_NODES, MAX_EDGES)
    assert len(graph) < 50_000
    assert flowchart([('a"] --> x', "ODD", [])]) == 'flowchart TD\n    s0["a   --  x<br/>ODD"]'
