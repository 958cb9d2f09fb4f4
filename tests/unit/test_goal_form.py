"""What the page's form of a goal says: fields become a goal, and errors are told by their fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas import codec
from schemas.base import GoalKind
from worker.gateway.page import goal_form
from worker.gateway.page.goal_form import Complaint, WrongField
from worker.sources.goal import Nothing

JUNIT = (
    '<?xml version="1.0" encoding="iso-8859-1"?><testsuites><testsuite name="pytest">'
    '<testcase name="test_ä" file="tests/test_a.py"><failure message="assert 1 == 2">E assert</failure></testcase>'
    '<testcase name="test_y" file="tests/test_b.py"><failure message="no">E no</failure></testcase>'
    "</testsuite></testsuites>"
)
GREEN = '<testsuites><testsuite name="pytest"><testcase name="test_x"/></testsuite></testsuites>'
SARIF: dict[str, Any] = {
    "version": "2.1.0",
    "runs": [
        {
            "tool": {"driver": {"name": "ruff"}},
            "results": [
                {
                    "ruleId": "F401",
                    "level": "error",
                    "message": {"text": "unused"},
                    "locations": [{"physicalLocation": {"artifactLocation": {"uri": "src/a.py"}}}],
                }
            ],
        }
    ],
}


def test_fields_become_a_goal_and_those_that_are_empty_say_nothing() -> None:
    said = {
        "goal": " Fix it\r\nwholly ",
        "files": "src/a.py\r\n\r\n tests/test_a.py ",
        "repo": "acme/shop",
        "language": "",
        "approve_HIGH": "yes",
        "limit_tokens": "50000",
        "limit_max_steps": "",
        "delivery": "pull-request",
        "goal_id": "page-1",
        "csrf": "not of the goal",
    }

    assert goal_form.goal_of(said) == {
        "goal": "Fix it\nwholly",
        "allowed_files": ["src/a.py", "tests/test_a.py"],
        "context": {"repo": "acme/shop"},
        "approvals": ["HIGH"],
        "limits": {"tokens": 50_000},
        "delivery": {"push": True, "pull_request": True},
        "goal_id": "page-1",
    }


def test_fields_stand_over_what_is_said_as_json() -> None:
    more = {"goal": "older", "limits": {"tokens": 1000, "max_steps": 3}, "constraints": ["no new files"]}

    found = goal_form.goal_of({"goal": "newer", "limit_tokens": "2000", "more": codec.dumps(more).decode()})

    assert found == {"goal": "newer", "limits": {"tokens": 2000, "max_steps": 3}, "constraints": ["no new files"]}


def test_a_test_report_asks_for_a_repair_of_the_tests_that_are_chosen() -> None:
    every = goal_form.goal_of({"report": "\ufeff" + JUNIT, "files": "src/a.py"})
    one = goal_form.goal_of({"report": JUNIT, "tests": "test_b.py", "goal": "Mend b"})

    assert isinstance(every, dict)
    assert list(every["context"]["failing_tests"]) == ["tests/test_a.py::test_ä", "tests/test_b.py::test_y"]
    assert every["goal"].startswith("Fix 2 failing tests:")
    assert isinstance(one, dict)
    assert (one["goal"], list(one["context"]["failing_tests"])) == ("Mend b", ["tests/test_b.py::test_y"])


def test_a_sarif_log_and_a_test_report_where_that_is_asked_for_make_a_gap_report() -> None:
    for said in ({"report": codec.dumps(SARIF).decode()}, {"report": JUNIT, "kind": "gap_report"}):
        found = goal_form.goal_of({**said, "files": "src/a.py"})
        assert isinstance(found, dict)
        assert found["kind"] == "gap_report"
        assert found["gap_report"]["gap_report"]["gaps"]
        assert "files" not in found.get("context", {})  # nothing of where the gateway happens to run


def test_a_report_in_which_nothing_is_wrong_is_nothing_to_do() -> None:
    assert goal_form.goal_of({"report": GREEN}) is Nothing.NO_FAILURES
    assert goal_form.goal_of({"report": '{"version": "2.1.0", "runs": []}'}) is Nothing.NO_GAP


@pytest.mark.parametrize(
    ("said", "field", "detail"),
    [
        ({"limit_tokens": "many"}, "limit_tokens", "whole number"),
        ({"limit_tokens": "٣"}, "limit_tokens", "whole number"),
        ({"more": "{"}, "more", "no JSON"),
        ({"more": "[]"}, "more", "no JSON object"),
        ({"more": '{"context": []}'}, "more", "`context`"),
        ({"more": '{"goal": ' + "[" * 260 + "]" * 260 + "}"}, "more", "more than 100 deep"),
        ({"report": "hello"}, "report", "neither"),
        ({"report": "<html/>"}, "report", "begins with"),
        ({"report": '<!DOCTYPE a [<!ENTITY b "c">]><testsuites/>'}, "report", "document type"),
        ({"report": "{}"}, "report", "no SARIF log"),
        ({"report": JUNIT, "tests": "test_z"}, "tests", "No test that failed"),
        ({"tests": "test_z"}, "tests", "there is none"),
        ({"report": '{"version": "2.1.0", "runs": []}', "tests": "x"}, "tests", "SARIF"),
        ({"report": codec.dumps(SARIF).decode(), "kind": "campaign"}, "kind", "gap report, no campaign"),
    ],
)
def test_what_is_wrong_is_told_of_its_field(said: dict[str, str], field: str, detail: str) -> None:
    with pytest.raises(WrongField, match=detail) as caught:
        goal_form.goal_of(said)

    assert caught.value.field == field
    assert field in goal_form.LABELS


@pytest.mark.parametrize(
    ("pointer", "field", "label"),
    [
        ("/goal", "goal", "What shall be done"),
        ("/goal_id", "goal_id", "Id of the goal"),
        ("/allowed_files/1", "files", "Files that may change, line 2"),
        ("/context/base_sha", "base_sha", "Commit to begin at"),
        ("/context/files/3", "listing", "Files of the repository, line 4"),
        ("/constraints/0", "constraints", "What to keep to, line 1"),
        ("/context/documents/a.md", "more", "Anything else, as JSON (/context/documents/a.md)"),
        ("/limits/tokens", "limit_tokens", "Limit of tokens"),
        ("/gap_report/gap_report/gaps/0", "report", "Report (/gap_report/gap_report/gaps/0)"),
        ("", "", "The goal"),
    ],
)
def test_an_error_is_told_by_what_people_see(pointer: str, field: str, label: str) -> None:
    told = goal_form.complaints([{"pointer": pointer, "code": "x", "message": "No."}])

    assert told == (Complaint(field, label, "No."),)
    assert goal_form.by_field(told) == {field: ["No."]}


def test_an_error_names_the_line_on_which_it_stands() -> None:
    told = goal_form.complaints([{"pointer": "/constraints/1", "message": "No."}], {"constraints": "one\r\n\r\n two"})

    assert told == (Complaint("constraints", "What to keep to, line 3", "No."),)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30).map(str.strip)
WORDS = TEXTS.filter(bool)
LISTS = st.lists(WORDS, min_size=1, max_size=4)
NAMES = ("queue", "drafter", "tenant", "goal_id")
OF_CONTEXT = ("repo", "base_sha", "language", "test_command")
GOALS = st.fixed_dictionaries(
    {},
    optional={
        "goal": st.lists(TEXTS, max_size=3).map("\n".join).map(str.strip).filter(bool),
        "allowed_files": LISTS,
        "constraints": LISTS,
        "context": st.fixed_dictionaries({}, optional={**dict.fromkeys(OF_CONTEXT, WORDS), "files": LISTS}).filter(
            bool
        ),
        **dict.fromkeys(NAMES, WORDS),
        "kind": st.sampled_from([each.value for each in GoalKind]),
        "approvals": st.lists(st.sampled_from(goal_form.RISKS), min_size=1, unique=True).map(
            lambda risks: sorted(risks, key=goal_form.RISKS.index)
        ),
        "delivery": st.fixed_dictionaries({"push": st.just(True), "pull_request": st.booleans()}),
        "limits": st.dictionaries(st.sampled_from(list(goal_form.LIMITS)), st.integers(0, 10**12 - 1), min_size=1),
    },
)
MORE = st.fixed_dictionaries(
    {},
    optional={
        "mend": st.booleans(),
        "goal": TEXTS,
        "constraints": LISTS,
        "context": st.fixed_dictionaries({"repo": WORDS, "failure_log": TEXTS, "files": LISTS}),
        "limits": st.fixed_dictionaries({"tokens": st.integers(0, 9), "tool_calls": st.integers(0, 9)}),
    },
)


def fill_in(goal: dict[str, Any]) -> dict[str, str]:
    """Fill in the form as somebody does who means this goal; browsers send lines as CR LF."""
    context, delivery = goal.get("context", {}), goal.get("delivery")
    said = {name: goal[name] for name in ("goal", "kind", *NAMES) if name in goal}
    said |= {name: context[name] for name in OF_CONTEXT if name in context}
    lists = {
        "files": goal.get("allowed_files"),
        "constraints": goal.get("constraints"),
        "listing": context.get("files"),
    }
    said |= {name: "\n".join(each) for name, each in lists.items() if each}
    said |= {f"approve_{risk}": "yes" for risk in goal.get("approvals", ())}
    said |= {f"limit_{name}": str(each) for name, each in goal.get("limits", {}).items()}
    if delivery:
        said["delivery"] = "pull-request" if delivery["pull_request"] else "push"
    return {name: text.replace("\n", "\r\n") for name, text in said.items()}


@given(GOALS, MORE)
@example({"context": {"test_command": "pytest -k 'a  b'"}}, {})
@example({"constraints": ["a\u2028b"], "context": {"files": ["a\x0bb.py"]}}, {})
def test_what_is_filled_in_is_what_the_goal_says(goal: dict[str, Any], more: dict[str, Any]) -> None:
    found = goal_form.goal_of({**fill_in(goal), "more": codec.dumps(more).decode()})

    expected = {**more, **goal}
    for name in ("context", "limits"):
        if name in more:
            expected[name] = {**more[name], **goal.get(name, {})}
    assert found == expected


@given(st.binary(max_size=200))
@example(b'<?xml encoding="zip"?>')
@example(b'<?xml encoding="unicode_escape"?>\\x')
@example(b"\xff\xfe\x00")
def test_any_upload_has_a_text(body: bytes) -> None:
    assert len(goal_form.read_upload(body)) <= len(body)
