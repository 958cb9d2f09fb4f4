"""A goal with globs makes one step that may change what they mean: what it names, leaves out and points to."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import Mode, RiskLevel
from schemas.goal import Goal
from schemas.step import MAX_EXCLUDED, PlannedStep, fields_of
from tasks.handlers.goals import plan
from tasks.rules.permission import is_permitted, limits_of_files
from tasks.rules.strategy import Draft, Setting
from tasks.strategies.drafting.scope import MAX_BYTES
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden, forbid
from tests.support.plans import Running, a_report

TEST = "tests/test_m3.py::test_x"
SENTENCES = ["Fix it", "Add prefix support", "Refactor the shop", "Rename x to y", "Fix the build", "Do it all"]


def listing(count: int) -> list[str]:
    sources = [f"src/shop/m{number}.py" for number in range(count)]
    return [*sources, *(f"tests/test_m{number}.py" for number in range(count // 4 + 1)), "pyproject.toml"]


def steps_of(
    allowed: list[str], files: list[str], sentence: str = "Fix the rounding", **context: Any
) -> tuple[PlannedStep, ...]:
    known = {"files": files, "language": "python", **context}
    answer = plan(Goal.model_validate({"goal": sentence, "allowed_files": allowed, "context": known}))
    assert isinstance(answer, Draft), answer
    return answer.steps


def patches_of(*args: Any, **context: Any) -> list[PlannedStep]:
    return [step for step in steps_of(*args, **context) if step.mode is Mode.PATCH]


@pytest.mark.parametrize("count", [0, 12, 40, 81, 2000])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_sources_are_changed_by_one_step_however_many_there_are(count: int, sentence: str) -> None:
    (step, *_) = patches = patches_of(["src/**"], listing(count) if count else [], sentence)

    assert len(patches) == 1
    assert step.allowed_patterns == ("src/**",)
    assert len(step.allowed_files) == min(count, 50)
    assert limits_of_files(step.model_dump()) == {"max_files": 5, "max_risk": RiskLevel.MED}
    assert step.requires == (() if count else ("patterns",))
    assert step.checks_after == {"syntax": False}


def test_tests_and_documents_are_changed_apart_where_the_template_has_steps_for_them() -> None:
    files = [*listing(12), "docs/use.md"]

    core, tests, docs = patches_of(["src/**", "tests/**", "docs/**/*.md"], files, "Add prefix support")

    assert core.allowed_patterns == ("src/**", "tests/**")
    assert (tests.allowed_patterns, tests.risk_level) == (("tests/**",), RiskLevel.LOW)
    assert set(tests.allowed_files) <= {path for path in files if path.startswith("tests/")}
    assert (docs.allowed_patterns, docs.allowed_files, docs.verify) == (("docs/**/*.md",), ("docs/use.md",), "")


def test_what_is_likeliest_comes_first_each_with_its_reason() -> None:
    log = 'File "/builds/acme/src/shop/m7.py", line 12, in total\nFile "/usr/lib/x.py", line 3'
    texts = {"tests/test_m3.py": "from shop.m9 import total\nimport os\n"}

    (step,) = patches_of(
        ["src/**"], listing(60), "Fix the rounding of M5", failing_tests=[TEST], failure_log=log, documents=texts
    )

    assert [(place.path, place.lines, place.why) for place in step.focus] == [
        ("src/shop/m7.py", "12", "The failure names it."),
        ("src/shop/m3.py", None, "tests/test_m3.py is named after it."),
        ("src/shop/m9.py", None, "tests/test_m3.py imports it."),
    ]
    assert step.allowed_files[:3] == ("src/shop/m7.py", "src/shop/m3.py", "src/shop/m9.py")


def test_words_of_the_sentence_name_places() -> None:
    (step,) = patches_of(["src/**"], ["src/cart.py", "src/price_list.py", "src/a.py"], "Fix Cart and src/a.py")

    assert [place.path for place in step.focus] == ["src/a.py", "src/cart.py"]


@pytest.mark.parametrize(
    ("sentence", "allowed", "places"),
    [
        ("Fix the rounding", ["src/shop/m1.py", "src/shop/m3.py", "tests/test_m3.py"], ["src/shop/m3.py"]),
        ("Fix the rounding", ["src/shop/m3.py"], []),  # there is no choice
        ("Rename m3 to m4", ["src/shop/m1.py", "src/shop/m3.py"], []),  # all of them change
    ],
)
def test_a_repair_of_a_few_named_files_is_pointed_to_the_likely_ones(
    sentence: str, allowed: list[str], places: list[str]
) -> None:
    (step,) = patches_of(allowed, listing(8), sentence, failing_tests=[TEST])

    assert [place.path for place in step.focus] == places
    assert step.allowed_files == tuple(allowed)


@pytest.mark.parametrize(
    "path", ["src/conftest.py", "src/new/conftest.py", "src/.env", "src/Makefile", "src/x.pth", "src/secrets/a.py"]
)
def test_a_step_never_means_what_configures_a_verification_or_is_forbidden(path: str) -> None:
    (step,) = patches_of(["src/**"], [*listing(3), path])

    assert path not in step.allowed_files
    assert not is_permitted(step.model_dump(), path)
    assert is_permitted(step.model_dump(), "src/preferences.py")


def test_the_failing_tests_of_a_repair_are_left_out_unless_they_are_named() -> None:
    (globs,) = patches_of(["src/**", "tests/**"], listing(8), failing_tests=[TEST])
    (named,) = patches_of(["src/**", "tests/test_m3.py"], listing(12), failing_tests=[TEST])

    assert "tests/test_m3.py" in globs.excluded_patterns
    assert "tests/test_m3.py" not in globs.allowed_files
    assert "tests/test_m3.py" in named.allowed_files
    assert "tests/test_m3.py" not in named.excluded_patterns
    assert is_permitted(globs.model_dump(), "tests/test_m3.py")  # no violation: a controller puts it back


def test_what_is_riskier_than_the_step_is_left_out_and_makes_no_step_unless_it_is_named() -> None:
    risky = "src/migrations/0001_begin.py"

    (step,) = patches_of(["src/**"], [*listing(3), risky])
    named = patches_of(["src/**", risky], [*listing(3), risky])

    assert risky in step.excluded_patterns
    assert risky not in step.allowed_files
    assert [(each.allowed_files, each.risk_level) for each in named[:2]] == [((risky,), RiskLevel.HIGH)] * 2
    assert [each.risk_level for each in named[2:]] == [RiskLevel.MED]


def test_a_glob_of_nothing_but_risky_files_makes_a_step_as_risky() -> None:
    patches = patches_of(["src/migrations/**"], ["src/migrations/0001_begin.py"])

    assert [(step.risk_level, step.phase) for step in patches] == [
        (RiskLevel.HIGH, "scaffold"),
        (RiskLevel.HIGH, "fill"),
    ]


def test_files_patterns_and_places_have_a_bound_in_bytes() -> None:
    long = [f"src/{'x' * 180}/{'y' * 180}/m{number}.py" for number in range(60)]
    globs = [f"src/{'z' * 100}{number}/**" for number in range(60)]

    (step,) = patches_of(["src/**", *globs], long)

    said = codec.dumps([step.allowed_files, step.allowed_patterns, step.focus], fields_of)
    assert len(said) <= MAX_BYTES
    assert len(step.allowed_patterns) == 50
    assert step.allowed_files
    assert len(step.excluded_patterns) <= 100


def test_a_failing_test_that_may_be_changed_is_no_place_of_its_bug() -> None:
    allowed = ["src/shop/m1.py", "src/shop/m2.py", "tests/test_m9.py"]
    failing, log = ["tests/test_m9.py::test_x"], "tests/test_m9.py:3: AssertionError"
    steps = steps_of(allowed, listing(20), "Fix it", failing_tests=failing, failure_log=log)

    assert [step.step_id for step in steps if step.mode is Mode.READ_ONLY] == ["locate-source"]


@pytest.mark.parametrize(
    ("log", "failing", "kept"),
    [
        ("", [], ["analyze-failure", "locate-source"]),
        ("src/shop/m2.py:3: TypeError\nsrc/shop/m1.py:9: in total", [], ["locate-source"]),
        ("src/shop/m2.py:3: TypeError", [TEST], ["locate-source"]),
        ("src/shop/m2.py:3: TypeError", [], []),
        ("tests/test_m3.py:3: AssertionError", [TEST], ["analyze-failure"]),
        ("tests/test_m3.py:3: AssertionError", [TEST, "tests/test_m4.py::test_b"], ["locate-source"]),
        ("lib/other.py:3: TypeError", [], ["analyze-failure", "locate-source"]),
    ],
)
def test_what_the_goal_already_says_is_not_looked_for(log: str, failing: list[str], kept: list[str]) -> None:
    steps = steps_of(["src/**", "tests/**"], listing(20), "Fix it", failing_tests=failing, failure_log=log)

    assert [step.step_id for step in steps if step.mode is Mode.READ_ONLY] == kept


MANY = forbid((*(f"part{number}.secret" for number in range(150)), "lpt[1-9]"))


@pytest.mark.parametrize("path", ["src/part149.secret", "src/PART149.Secret", "src/lpt7", "src/part149.secret."])
def test_what_the_operator_forbids_is_a_violation_also_where_the_spec_has_no_room_to_exclude_it(path: str) -> None:
    steps, names = made_under(MANY, "src/**")
    step = patch_under(MANY)
    assert len(step.excluded_patterns) == MAX_EXCLUDED
    plan = Running(*steps, draft={"forbidden": names})
    while "implement-fix" not in plan.active:
        step_id, live = next(iter(plan.active.items()))
        plan.report(a_report(step_id, live.attempt, touched_files=[]))
    assert "forbidden" not in plan.waiting("default")[-1]

    plan.report(a_report("implement-fix", touched_files=["src/shop/m1.py", path], tests_passed=True))

    assert plan.halt["rule"] == "security"
    assert path in (plan.steps["implement-fix"].previous or {})["suggestion"]


def test_what_the_usual_list_forbids_and_the_operators_own_does_not_is_permitted() -> None:
    usual, own = (patch_under(forbidden).model_dump() for forbidden in (FORBIDDEN, MANY))
    assert not is_permitted(usual, "src/governance/a.py")
    assert is_permitted(own, "src/governance/a.py")


def test_a_plan_keeps_forbidden_names_only_where_it_needs_them() -> None:
    assert made_under(FORBIDDEN, "src/**")[1] == ()
    steps, names = made_under(MANY, "src/shop/m1.py")
    assert names == ()
    assert not any(step.forbidden for step in steps)


@pytest.mark.parametrize("path", ["src/.env.", "src/com3", "src/id_rsa:x", "src/_NETRC"])
def test_no_form_of_a_forbidden_name_is_permitted_by_a_pattern(path: str) -> None:
    (step, *_) = patches_of(["src/**"], listing(12))
    facts = step.model_dump()

    assert not is_permitted({**facts, "excluded_patterns": ()}, path)
    assert is_permitted({**facts, "allowed_files": (path,)}, path)


@pytest.mark.parametrize("path", [".github/workflows/ci.yml", "tests/conftest.py", "src/new/package.json"])
@pytest.mark.parametrize("is_excluded", [True, False])
def test_a_pattern_never_permits_what_configures_a_verification(path: str, is_excluded: bool) -> None:
    (step, *_) = patches_of([".github/**", "src/**", "tests/**"], listing(12))
    facts = {**step.model_dump(), "excluded_patterns": (path,) if is_excluded else ()}

    assert not is_permitted(facts, path)
    assert is_permitted({**facts, "allowed_files": (path,)}, path)


def made_under(forbidden: Forbidden, allowed: str) -> tuple[tuple[PlannedStep, ...], tuple[str, ...]]:
    """The steps of a repair that is planned under this list, and the names that its plan keeps."""
    context = {"files": listing(12), "language": "python", "failing_tests": [TEST]}
    goal = Goal.model_validate({"goal": "Fix the rounding", "allowed_files": [allowed], "context": context})
    answer = plan(goal, setting=Setting(forbidden=forbidden))
    assert isinstance(answer, Draft), answer
    return answer.steps, answer.forbidden


def patch_under(forbidden: Forbidden) -> PlannedStep:
    """The step of that plan that changes files."""
    (step,) = (step for step in made_under(forbidden, "src/**")[0] if step.mode is Mode.PATCH)
    return step
