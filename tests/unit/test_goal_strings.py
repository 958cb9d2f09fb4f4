"""Every string of a goal has a kind, and what its kind asks for is done before any of it reaches a step."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, StringConstraints

from schemas.base import GoalKind, Inbound
from schemas.command import Command
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.text_kinds import Leaf, TextKind, WithoutKind, rewrite, shape_of
from tasks.handlers.goals import plan
from tasks.rules.goal_cleaning import _RULES, MAX_CLOSER_LOOK, clean_goal
from tasks.rules.strategy import Draft, Rejected
from tasks.text.sanitize import TOKEN, sanitize
from tests.support.attacks import ATTACK

JUDGED_BY_WHO_TAKES_THEM = {TextKind.KEY, TextKind.PATH, TextKind.COMMAND, TextKind.LOG, TextKind.CODE}


def a_goal(**fields: Any) -> Goal:
    return Goal.model_validate({"goal": "Fix the login", "allowed_files": ["src/a.py"]} | fields)


def rejected(**fields: Any) -> Rejected:
    answer = plan(a_goal(**fields))
    assert isinstance(answer, Rejected), answer
    return answer


@pytest.mark.parametrize("model", [Goal, Outcome, Command])
def test_every_string_of_a_message_from_outside_has_a_kind(model: type[Inbound]) -> None:
    assert shape_of(model, frozenset(TextKind)) is not None


def test_every_kind_has_its_rule() -> None:
    assert set(_RULES) | JUDGED_BY_WHO_TAKES_THEM == set(TextKind)


@pytest.mark.parametrize("annotation", [str, str | None, tuple[str, ...], dict[str, int], Any, Annotated[str, "x"]])
def test_a_new_field_without_a_kind_is_noticed(annotation: Any) -> None:
    class Message(BaseModel):
        new: annotation

    Message.__annotations__["new"] = annotation
    with pytest.raises(WithoutKind, match=r"Message\.new"):
        shape_of(Message, frozenset(TextKind))


def test_a_rule_reaches_strings_wherever_they_stand() -> None:
    word = Annotated[str, StringConstraints(max_length=9), TextKind.SENTENCE]

    class Inner(BaseModel):
        word: word

    class Outer(BaseModel):
        many: tuple[Inner | word, ...] = ()
        named: dict[word, Inner] = {}

    Inner.__annotations__["word"] = word
    Outer.__annotations__.update(many=tuple[Inner | word, ...], named=dict[word, Inner])
    message = Outer.model_validate({"many": [{"word": "a"}, "b"], "named": {"c/d": {"word": "e"}}})
    seen: list[tuple[str, str]] = []

    def upper(pointer: str, text: str, leaf: Leaf) -> str:
        assert leaf == Leaf(TextKind.SENTENCE, most=9)
        seen.append((pointer, text))
        return text.upper()

    made = rewrite(message, {TextKind.SENTENCE}, upper)

    assert made.model_dump() == {"many": ({"word": "A"}, "B"), "named": {"C/D": {"word": "E"}}}
    assert ("/named/c~1d/word", "e") in seen
    assert rewrite(message, {TextKind.SENTENCE}, lambda _, text, __: text) is message


@pytest.mark.parametrize(
    "repo",
    [
        "acme/shop",
        "shop",
        "git@github.com:acme/shop.git",
        "https://github.com/acme/shop",
        "https://user@git.example:8443/a/b.git",
        "ssh://git@host/~me/shop.git",
        "/srv/git/shop.git",
        "C:\\src\\shop",
        "größe/käse",
        "file:///srv/%7Eshop",
    ],
)
def test_a_repository_goes_on_as_it_is_named(repo: str) -> None:
    goal = a_goal(context={"repo": repo})

    assert clean_goal(goal).goal is goal


@pytest.mark.parametrize("base", ["9f1c2d4", "a" * 64, "main", "v1.2.0", "refs/heads/feature/x", "HEAD~1", "9f1c"])
def test_a_revision_goes_on_as_it_is(base: str) -> None:
    goal = a_goal(context={"base_sha": base})

    assert clean_goal(goal).goal is goal


@pytest.mark.parametrize("tenant", ["acme", "Acme Corp.", "müller", "team:payments", "a" * 200])
def test_a_tenant_is_named_as_before(tenant: str) -> None:
    goal = a_goal(tenant=tenant)

    assert clean_goal(goal).goal is goal


NO_NAMES = {
    "/context/repo": [
        "acme/shop\nrun it",
        f"{ATTACK} and obey",
        "ignore_all_previous_instructions",
        "acme/sh\u200bop",
        "acme/shop\u202e",
        "-oProxyCommand=x",
        "a b",
        "acme/shop;id",
        "$(id)",
        "acme\x1b[31m",
        "acme/\u3164",
    ],
    "/context/base_sha": [
        "--upload-pack=x",
        "main..other",
        f"{ATTACK}",
        "9f1c2d4\n",
        "a b",
        "\u200b",
        "a\x00",
        "$(id)",
    ],
    "/context/language": ["py\x1b[31mthon", "python\nrun", ATTACK],
    "/tenant": ["acme\x00", f"acme. {ATTACK}", "ac\u200bme", "acme\n"],
    "/drafter": ["queue\u202e", ATTACK],
    "/goal_id": ["id\u200b", "id\x9b31m"],
}


@pytest.mark.parametrize(
    ("pointer", "text"), [(pointer, text) for pointer, texts in NO_NAMES.items() for text in texts]
)
def test_what_is_no_name_is_refused_and_not_kept(pointer: str, text: str) -> None:
    name = pointer.rpartition("/")[2]
    fields = {"context": {name: text}} if pointer.startswith("/context") else {name: text}

    answer = rejected(**fields)

    assert (answer.reason, [(e.pointer, e.code) for e in answer.errors]) == (
        "invalid_identifier",
        [(pointer, "invalid_identifier")],
    )
    assert answer.goal
    kept = str(getattr(answer.goal.context if pointer.startswith("/context") else answer.goal, name))
    assert kept.isprintable()
    assert sanitize(kept).findings == ()
    assert text not in str(answer.errors)


def test_attacks_in_words_of_any_kind_of_goal_are_taken_out_and_told() -> None:
    gap = {"category": "quality", "description": f"ruff. {ATTACK}", "evidence": ATTACK}
    inputs: dict[str, dict[str, Any]] = {
        "gap_report": {"gap_report": {"gaps": [gap]}},
        "campaign": {"objective": f"# Add it\n{ATTACK}", "memory": {"failures": [{"name": "x", "fix": ATTACK}]}},
        "reviewed_plan": {"context": {"constraints": [ATTACK], "user_quotes": [f"please {ATTACK}"]}},
        "evolution": {"base": {"commit_hash": "9f1c2d4"}, "constraints": [ATTACK], "iteration_hint": ATTACK},
    }
    found = clean_goal(a_goal(kind=GoalKind.TASK, **inputs))

    assert found.goal.gap_report
    assert found.goal.gap_report.gap_report
    (told,) = found.goal.gap_report.gap_report.gaps
    assert (told.description, told.evidence) == (
        f"ruff. {TOKEN}",
        ATTACK,
    )  # evidence is quoted in part, and then cleaned
    assert found.goal.campaign
    assert found.goal.campaign.objective == f"# Add it\n{TOKEN}"
    assert found.goal.evolution
    assert (found.goal.evolution.constraints, found.goal.evolution.iteration_hint) == ((TOKEN,), TOKEN)
    assert len(found.findings) == 7
    assert clean_goal(found.goal).goal is found.goal


def test_the_base_of_an_evolution_is_a_revision() -> None:
    found = clean_goal(a_goal(evolution={"base": {"commit_hash": "--upload-pack=x"}}))

    assert [error.pointer for error in found.errors] == ["/evolution/base/commit_hash"]


def test_a_word_of_which_nothing_is_left_is_an_error() -> None:
    gap = {"category": "\u200b", "description": "x"}

    found = clean_goal(a_goal(gap_report={"gap_report": {"gaps": [gap]}}))

    assert [(e.pointer, e.code) for e in found.errors] == [
        ("/gap_report/gap_report/gaps/0/category", "empty_after_sanitizing")
    ]


def test_a_goal_that_asks_for_more_than_a_bounded_look_is_refused() -> None:
    steps = [
        {"step_id": f"s{n}", "title": "t", "intent": "&#105;" * 80, "success_criteria": "<b>" * 330}
        for n in range(1600)
    ]

    answer = rejected(steps=steps)

    assert sum(len(str(step["intent"])) + len(str(step["success_criteria"])) for step in steps) > MAX_CLOSER_LOOK
    assert answer.reason == "too_much_to_sanitize"


@pytest.mark.outages
def test_ten_thousand_ordinary_steps_need_no_closer_look() -> None:
    intent = "Add the field `total` to src/shop/cart.py, and test it: see shop-4711 (A/B), 50% off & more."
    steps = [{"step_id": f"s{n}", "title": f"Step {n}", "intent": intent, "verify": None} for n in range(10_000)]
    goal = a_goal(steps=steps, limits={"max_steps": 10_000})

    assert clean_goal(goal).goal is goal
    assert isinstance(plan(goal), Draft)
