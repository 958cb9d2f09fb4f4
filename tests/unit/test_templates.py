"""Plans made by template: the golden plans, every type of goal in every language, and how files are split."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode, RiskLevel, StepType
from schemas.goal import Goal
from tasks.handlers.goals import plan
from tasks.rules.permission import limits_of_files
from tasks.rules.risk import RISK
from tasks.rules.strategy import Draft, Rejected
from tasks.strategies.drafting.repeats import only_repeats
from tasks.strategies.task.goal_type import GoalType
from tasks.strategies.task.steps import REVIEWED, VERIFIED
from tasks.strategies.task.templates import TEMPLATES
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.languages import MANIFESTS

PIP_CHECK = "python -m pip check"
FILES_OF = {
    "python": ["src/a.py", "tests/test_a.py"],
    "javascript": ["src/a.js", "src/a.test.js"],
    "typescript": ["src/a.ts", "src/a.test.ts"],
    "go": ["a.go", "a_test.go"],
    "rust": ["src/a.rs", "tests/a.rs"],
    "cpp": ["src/a.cpp", "tests/a_test.cpp"],
}
GOAL_OF = {
    GoalType.REPAIR: "Fix the login",
    GoalType.FEATURE: "Add prefix support",
    GoalType.REFACTOR: "Refactor utils",
    GoalType.BUILD: "Fix the build",
    GoalType.DEPENDENCY: "Upgrade Django to 5.1",
    GoalType.OBSERVATION: "Investigate slow logins",
    GoalType.GENERIC: "Update the greeting",
}


def answer(text: str, allowed: list[str], limits: dict[str, int] | None = None, **context: Any) -> Draft | Rejected:
    goal = {"goal": text, "allowed_files": allowed, "limits": limits or {}, "context": context}
    made = plan(Goal.model_validate(goal))
    assert isinstance(made, Draft | Rejected)
    return made


def drafted(text: str, allowed: list[str], limits: dict[str, int] | None = None, **context: Any) -> Draft:
    made = answer(text, allowed, limits, **context)
    assert isinstance(made, Draft), made
    return made


def codes(made: Draft | Rejected) -> list[tuple[str, str]]:
    assert isinstance(made, Rejected)
    return [(error.pointer, error.code) for error in made.errors]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_change_of_a_manifest_alone_is_verified(manifest: str) -> None:
    made = drafted("Bump lodash to 4.17.21", [manifest], manifests={manifest: '{"scripts": {"test": "jest"}}'})

    patches = [step for step in made.steps if step.mode is Mode.PATCH]
    assert [step.allowed_files for step in patches] == [(manifest,)]
    assert all(step.verify for step in patches)
    if MANIFESTS[manifest] == "javascript":
        assert patches[0].verify == "npm test"


@pytest.mark.parametrize("language", FILES_OF)
@pytest.mark.parametrize("kind", GOAL_OF)
def test_every_template_passes_the_validator_in_every_language(kind: GoalType, language: str) -> None:
    made = drafted(GOAL_OF[kind], FILES_OF[language])

    assert made.document is not None
    assert made.document["type"] == kind
    assert made.document["language"] == language
    for step in made.steps:
        patches = step.controller_task_spec.type is StepType.PATCH
        assert patches == bool(step.allowed_files) == (step.mode is Mode.PATCH)
        if patches and RISK[step.risk_level].tests_required:
            assert step.verify_tools
            assert step.rollback_hint
        for tool in step.verify_tools:
            assert language in CATALOGUE.contracts[tool.tool].languages


@pytest.mark.parametrize(
    ("text", "least", "most", "needed"),
    [
        ("add auth with login/logout", 4, 10, ["design", "implement", "test", "verify"]),
        ("refactor utils", 4, 8, ["analyze", "design", "implement", "refactor", "verify"]),
        ("fix failing test", 3, 8, ["analyze", "locate", "implement", "fix", "verify"]),
    ],
)
def test_the_golden_plans_hold(text: str, least: int, most: int, needed: list[str]) -> None:
    steps = drafted(text, ["src/utils.py", "tests/test_utils.py"]).steps
    told = " ".join(f"{step.step_id} {step.title}".lower() for step in steps)

    assert least <= len(steps) <= most
    assert [word for word in needed if word not in told] == []
    assert any(step.verify for step in steps)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_names_only_rows_that_come_before(kind: GoalType) -> None:
    known: set[str] = set()
    for row in TEMPLATES[kind].rows:
        assert set(row.after) <= known
        assert row.step_id not in known
        known.add(row.step_id)
    assert all(row.after for row in TEMPLATES[kind].rows[1:])


def test_a_feature_of_the_issue_needs_nothing_but_its_files() -> None:
    steps = {step.step_id: step for step in drafted("Add prefix support", FILES_OF["python"], language="python").steps}

    assert " ".join(steps) == (
        "understand-requirements design-approach implement-core add-tests verify-new-tests verify-full"
    )
    assert steps["implement-core"].allowed_files == ("src/a.py", "tests/test_a.py")
    assert steps["implement-core"].risk_level is RiskLevel.MED
    assert steps["add-tests"].allowed_files == ("tests/test_a.py",)
    assert steps["add-tests"].controller_task_spec.target_file == "tests/test_a.py"
    assert steps["verify-new-tests"].verify == "pytest -q -- tests/test_a.py"
    assert steps["verify-full"].depends_on == ("verify-new-tests",)


def test_a_row_without_files_drops_out_and_what_waited_for_it_waits_further_back() -> None:
    steps = {step.step_id: step for step in drafted("Add prefix support", ["src/a.py"]).steps}

    assert "add-tests" not in steps
    assert steps["verify-full"].depends_on == ("implement-core",)


def test_documents_are_updated_by_a_step_of_their_own() -> None:
    steps = {step.step_id: step for step in drafted("Add prefix support", ["src/a.py", "README.md"]).steps}

    assert steps["implement-core"].allowed_files == ("src/a.py",)
    assert steps["update-docs"].allowed_files == ("README.md",)


def test_a_repair_is_verified_by_its_failing_tests_and_a_hostile_name_is_not_used() -> None:
    failing = ["x; rm -rf /", "tests/test_a.py::test_x", "--rootdir=/"]

    steps = {step.step_id: step for step in drafted("Fix it", FILES_OF["python"], failing_tests=failing).steps}

    own = "python -m py_compile src/a.py tests/test_a.py"
    assert steps["implement-fix"].verify == f"{own} && pytest -q -- tests/test_a.py::test_x"
    assert "verify-focused" not in steps
    assert steps["verify-regression"].verify == "pytest -q"


BASE: dict[str, Any] = {"base_sha": "9f1c2d4"}
TS: dict[str, Any] = {"files": ["src/a.ts", "src/a.test.ts"], "files_complete": True, "language": "typescript"}


@pytest.mark.parametrize(
    ("text", "allowed", "context", "left"),
    [
        ("Fix the build", ["src/a.ts"], {"language": "typescript"}, ["fix-build", "verify-full"]),
        ("Fix the build", ["src/**"], TS, ["fix-build", "verify-build", "verify-full"]),  # its files are checked first
        ("Update the greeting", ["lib/a.rb"], {"test_command": "make test"}, ["implement"]),
        ("Update the greeting", ["lib/a.rb"], {"test_command": "make test", **BASE}, ["implement", "verify"]),
        ("Bump lodash to 4.17.21", ["package.json"], {"manifests": {"package.json": "{}"}}, ["resolve-deps"]),
        ("Refactor a", ["src/a.py"], {}, ["implement-refactor", "verify-full"]),
    ],
)
def test_a_step_that_only_repeats_what_the_change_before_it_showed_is_left_out(
    text: str, allowed: list[str], context: dict[str, Any], left: list[str]
) -> None:
    steps = [step for step in drafted(text, allowed, **context).steps if step.mode is not Mode.READ_ONLY]

    assert [step.step_id for step in steps] == left
    assert steps[0].verify_tools


@pytest.mark.parametrize(("asked", "done", "repeats"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_run_in_another_mode_shows_nothing_about_a_strict_one(asked: bool, done: bool, repeats: bool) -> None:
    change = drafted("Fix a", ["src/a.py"], test_command="pyright src/a.py").steps[-1]
    (plain,) = change.verify_tools
    before = change.model_copy(
        update={"mode": Mode.PATCH, "verify_tools": (plain.model_copy(update={"strict": done}),)}
    )

    assert only_repeats([plain.model_copy(update={"strict": asked})], before) is repeats


def test_tests_that_globs_do_not_name_are_run_once_after_all_changes() -> None:
    files = ["src/a.py", "tests/test_a.py"]
    globs = drafted("Add prefix support", ["src/**", "tests/**"], files=files, **BASE)
    named = drafted("Add prefix support", ["src/**", "tests/**", "tests/test_new.py"], files=files, **BASE)

    assert [step.step_id for step in globs.steps][2:] == ["implement-core", "add-tests", "verify-full"]
    assert next(step.verify for step in named.steps if step.step_id == "verify-new-tests") == (
        "pytest -q -- tests/test_new.py"
    )


def test_an_upgrade_may_adapt_the_allowed_sources_and_its_manifests_come_first() -> None:
    files = ["src/a.py", "tests/test_a.py", "pyproject.toml"]

    steps = {step.step_id: step for step in drafted("Upgrade Django to 5.1", files).steps}

    assert steps["resolve-deps"].allowed_files == ("pyproject.toml", "src/a.py", "tests/test_a.py")
    assert steps["resolve-deps"].verify == (
        "python -m py_compile src/a.py tests/test_a.py && pytest -q -- tests/test_a.py"
    )
    assert steps["verify-install"].verify == "pytest -q"


def test_an_upgrade_may_change_more_files_than_its_risk_allows_at_once_and_is_judged_by_the_failing_tests() -> None:
    files = [f"src/{name}.py" for name in "abcdef"] + ["pyproject.toml"]

    step, verify = drafted("Upgrade Django to 5.1", files, failing_tests=["tests/test_a.py::test_x"]).steps[1:]

    assert set(step.allowed_files) == set(files)
    assert step.verify == "pytest -q -- tests/test_a.py::test_x"
    assert verify.verify == "pytest -q"


@pytest.mark.parametrize(
    ("manifest", "language", "command"),
    [("pyproject.toml", "python", PIP_CHECK), ("go.mod", "go", "go build ./...")],
)
def test_an_upgrade_of_manifests_alone_is_judged_by_what_checks_dependencies(
    manifest: str, language: str, command: str
) -> None:
    made = drafted("Upgrade Django to 5.1", [manifest], language=language)
    steps = {step.step_id: step for step in made.steps}

    assert steps["resolve-deps"].verify == command


@pytest.mark.parametrize(
    ("lock", "command"), [("uv.lock", "uv pip check"), ("poetry.lock", "pytest -q"), ("requirements.txt", PIP_CHECK)]
)
def test_dependencies_are_checked_by_pip_only_where_that_is(lock: str, command: str) -> None:
    made = drafted("Upgrade Django to 5.1", ["pyproject.toml"], language="python", files=["pyproject.toml", lock])

    assert next(step.verify for step in made.steps if step.step_id == "resolve-deps") == command


def test_the_goals_own_test_command_is_used() -> None:
    steps = drafted("Fix it", ["lib/a.rb"], test_command="make test").steps

    assert steps[-1].verify == "make test"


def test_a_few_more_files_by_name_than_the_risk_allows_are_cut_into_pieces_of_which_the_last_is_verified_whole() -> (
    None
):
    files = [*[f"src/{i}.py" for i in range(7)], "tests/test_a.py"]

    first, second, last = (step for step in drafted("Refactor utils", files).steps if step.mode is Mode.PATCH)

    assert [*first.allowed_files, *second.allowed_files, *last.allowed_files] == files
    assert {step.allowed_patterns for step in (first, second, last)} == {()}
    for step in (first, second, last):
        assert step.verify == f"python -m py_compile {' '.join(step.allowed_files)}"


def test_many_more_files_than_the_risk_allows_make_one_step_that_names_them_sources_first() -> None:
    files = ["tests/test_a.py", "README.md", *[f"src/{i}.py" for i in range(17)]]

    (step,) = [step for step in drafted("Refactor utils", files).steps if step.mode is Mode.PATCH]

    assert step.allowed_files == (*files[2:], *files[:2])
    assert step.allowed_patterns == ()
    assert limits_of_files(step.model_dump()) == {"max_files": 5, "max_risk": RiskLevel.MED}
    assert step.verify == "pytest -q"
    assert step.checks_after == {"syntax": False}


def test_files_by_name_beyond_those_that_a_step_lists_are_patterns_of_it() -> None:
    files = [f"src/m{number}.py" for number in range(120)]

    (step,) = [step for step in drafted("Refactor utils", files).steps if step.mode is Mode.PATCH]

    assert (len(step.allowed_files), len(step.allowed_patterns)) == (50, 50)
    assert (*step.allowed_files, *step.allowed_patterns) == tuple(files[:100])


@pytest.mark.parametrize("kind", [kind for kind in GOAL_OF if kind is not GoalType.OBSERVATION])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_no_patch_runs_the_whole_suite_and_a_later_step_of_mode_test_does(kind: GoalType, count: int) -> None:
    files = [path for number in range(count) for path in (f"tests/test_{number}.py", f"src/{number}.py")]

    steps = drafted(GOAL_OF[kind], files, {"max_steps": 40}, failing_tests=["tests/test_0.py::test_x"]).steps

    patches = [number for number, step in enumerate(steps) if step.mode is Mode.PATCH]
    for number in patches:
        words = {word for tool in steps[number].verify_tools for word in tool.argv if ".py" in word}
        assert words
        assert {word.partition("::")[0] for word in words} <= set(steps[number].allowed_files)
        assert "pytest -q" not in steps[number].verify.split(" && ")
    whole = [number for number, step in enumerate(steps) if step.mode is Mode.TEST and step.verify == "pytest -q"]
    assert max(whole) > max(patches)


RUFF_AND_MYPY = {"pyproject.toml": "[tool.ruff]\nline-length = 100\n[tool.mypy]\nstrict = true\n"}

TSC = {"tsconfig.json": "{}", "package.json": '{"devDependencies": {"typescript": "6"}}'}


@pytest.mark.parametrize(
    ("files", "manifests", "added", "verify"),
    [
        (
            ["src/a.py"],
            RUFF_AND_MYPY,
            ("ruff-check", "mypy"),
            "ruff check -- src/a.py && mypy --follow-imports=silent -- src/a.py && python -m py_compile src/a.py",
        ),
        (["src/a.py"], {"setup.cfg": "[mypy]"}, ("mypy",), "mypy --follow-imports=silent -- src/a.py && "),
        (["src/a.py"], {"pyproject.toml": "[tool.pyright]\n"}, ("pyright",), "pyright src/a.py && "),
        (["src/a.ts"], {"package.json": '{"devDependencies": {"eslint": "9"}}'}, ("eslint",), "npx eslint -- src/a.ts"),
        (["src/a.ts"], TSC, ("tsc",), "npx tsc --noEmit"),
        (["src/a.ts"], {"tsconfig.json": "{}", "package.json": "{}"}, (), "npx tsc --noEmit"),  # what TypeScript has
        (["src/a.rs"], {"clippy.toml": ""}, ("cargo-clippy",), "cargo clippy && cargo check"),
        (["src/a.rs"], {"Cargo.toml": "[lints.clippy]\npedantic = 'warn'"}, ("cargo-clippy",), "cargo clippy && "),
        (["src/a.rs"], {"Cargo.toml": "[package]"}, (), "cargo check"),
        (["src/a.py"], {"pyproject.toml": "# [tool.ruff]"}, (), "python -m py_compile src/a.py"),
        (["src/a.py"], {}, (), "python -m py_compile src/a.py"),
    ],
)
def test_a_patch_is_verified_by_the_quick_checks_that_the_manifests_configure(
    files: list[str], manifests: dict[str, str], added: tuple[str, ...], verify: str
) -> None:
    (step,) = (each for each in drafted("Refactor utils", files, manifests=manifests).steps if each.allowed_files)

    assert step.verify.startswith(verify)
    assert step.quick_checks == added


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Fix the failing test `tests/test_a.py::test_x`.", ["tests/test_a.py::test_x"]),
        ("Fix tests/test_a.py::TestA::test_x, please", ["tests/test_a.py::TestA::test_x"]),
        ("Fix tests/test_gone.py::test_x", []),
        ("Fix src/a.py::test_x", []),
        ("Add a test tests/test_a.py::test_new", []),
    ],
)
def test_a_test_that_the_sentence_of_a_repair_names_counts_as_a_failing_one(text: str, named: list[str]) -> None:
    made = drafted(text, FILES_OF["python"], files=FILES_OF["python"])

    patches = [step.verify for step in made.steps if step.step_id == "implement-fix"]
    assert any(verify.endswith(f" && pytest -q -- {' '.join(named)}") for verify in patches) == bool(named)
    assert list(made.goal.context.failing_tests if made.goal else ()) == named


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Add a greeting", ["tests/test_a.py"]),
        ("Write tests for a", FILES_OF["python"]),
        ("Please add missing unit tests to cover login and logout", [*FILES_OF["python"], "README.md"]),
    ],
)
def test_who_changes_nothing_but_tests_writes_them_once(text: str, files: list[str]) -> None:
    steps = drafted(text, files).steps

    assert [step.step_id for step in steps if step.mode is Mode.PATCH] == ["add-tests"]
    assert [step.verify for step in steps if step.mode is not Mode.READ_ONLY] == [
        "pytest -q -- tests/test_a.py",
        "pytest -q",
    ]


@pytest.mark.parametrize("text", ["Add tests for a and fix it", "Write tests and a parser", "Add a --test flag"])
def test_who_asks_for_more_than_tests_has_its_sources_changed(text: str) -> None:
    steps = {step.step_id: step for step in drafted(text, FILES_OF["python"]).steps}

    assert "src/a.py" in steps["implement-core"].allowed_files


@pytest.mark.parametrize("kind", GOAL_OF)
def test_the_criteria_of_a_change_promise_nothing_but_what_verifies_it(kind: GoalType) -> None:
    told = {}
    for files in (FILES_OF["python"], ["notes.md"], ["data.bin"]):
        made = answer(GOAL_OF[kind], files)
        for step in made.steps if isinstance(made, Draft) else ():
            if step.mode is not Mode.READ_ONLY or step.controller_task_spec.type is StepType.REVIEW:
                told[step.mode, bool(step.verify_tools)] = step.success_criteria

    assert set(told.items()) <= {
        ((Mode.PATCH, True), VERIFIED),
        ((Mode.TEST, True), VERIFIED),
        ((Mode.PATCH, False), ""),
        ((Mode.READ_ONLY, False), REVIEWED),
    }


def test_a_check_that_the_goal_names_is_asked_for_and_not_added() -> None:
    steps = drafted("Clean up what ruff reports", ["src/a.py"]).steps
    (step,) = (each for each in steps if each.allowed_files)

    assert step.verify == "ruff check -- src/a.py && python -m py_compile src/a.py"
    assert step.quick_checks == ()


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("Refactor utils", ("ruff-check", "mypy")),
        ("Annotate all functions with types", ("ruff-check",)),
        ("Remove the lint warnings", ("mypy",)),
        ("Rename the column", ("ruff-check", "mypy")),
    ],
)
def test_a_goal_that_speaks_of_lint_or_types_asks_for_their_check(text: str, added: tuple[str, ...]) -> None:
    patches = [step for step in drafted(text, ["src/a.py"], manifests=RUFF_AND_MYPY).steps if step.allowed_files]

    assert patches[0].quick_checks == added


def test_what_looks_at_the_whole_project_judges_no_piece_of_a_change() -> None:
    files = ["deploy/a.ts", "src/a.ts"]
    eslint = {"package.json": '{"devDependencies": {"typescript": "6", "eslint": "9"}}', "tsconfig.json": "{}"}
    steps = drafted("Refactor utils", files, manifests=eslint).steps

    patches = [step for step in steps if step.allowed_files]
    assert len(patches) > 1
    assert {step.quick_checks for step in patches} == {("eslint",)}


def test_the_check_that_a_build_is_about_was_not_added() -> None:
    (step,) = (each for each in drafted("Fix the build", ["src/a.ts"], manifests=TSC).steps if each.allowed_files)

    assert (step.verify, step.quick_checks) == ("npx tsc --noEmit", ())


def test_the_failing_tests_of_a_repair_in_pieces_judge_it_as_a_whole() -> None:
    files = ["deploy/a.py", "src/a.py"]

    steps = drafted("Fix it", files, failing_tests=["tests/test_a.py::test_x"]).steps

    focused = "pytest -q -- tests/test_a.py::test_x"
    assert [step.mode for step in steps if focused in step.verify] == [Mode.TEST]


def test_more_files_than_the_steps_can_take_are_rejected() -> None:
    files = ["Dockerfile", *[f"src/{i}.py" for i in range(100)]]

    assert codes(answer("Refactor utils", files, {"max_steps": 5})) == [("/allowed_files", "too_many_files")]
    assert len(drafted("Refactor utils", files, {"max_steps": 6}).steps) == 6


def test_fewer_steps_than_the_template_needs_are_rejected() -> None:
    assert codes(answer("Refactor utils", ["a.py"], {"max_steps": 2})) == [("/steps", "too_many_steps")]


def test_a_goal_that_patches_needs_allowed_files() -> None:
    assert codes(answer("Fix it", [])) == [("/allowed_files", "no_allowed_files")]


def test_an_observation_needs_no_files() -> None:
    steps = drafted("Investigate slow logins", []).steps

    assert {step.mode for step in steps} == {Mode.READ_ONLY}


@pytest.mark.parametrize("command", ["pytest; ls", "bundle exec rspec", "python -c 'x'", "pytest --rootdir=/"])
def test_a_test_command_outside_the_catalogue_is_rejected(command: str) -> None:
    made = answer("Fix it", ["a.py"], test_command=command)

    assert codes(made) == [("/context/test_command", "unknown_test_command")]
    assert isinstance(made, Rejected)
    assert made.reason == "unknown_test_command"
    assert "nearest contract" in made.errors[0].message


def test_everything_wrong_with_a_goal_is_told_at_once() -> None:
    made = answer("Fix it", ["a.py", "../b.py", ".env", "*"], test_command="rm -rf /")

    assert [code for _, code in codes(made)] == [
        "path_traversal",
        "forbidden_path",
        "root_wide_glob",
        "unknown_test_command",
    ]


def test_code_that_nothing_can_verify_is_rejected_and_the_field_to_set_is_named() -> None:
    made = answer("Fix it", ["a.rb"])

    assert codes(made) == [("/context/test_command", "no_verification")]
    assert isinstance(made, Rejected)
    assert "context.language" in made.errors[0].message


def test_documentation_needs_no_tests_but_a_review() -> None:
    steps = drafted("Add a section on login", ["README.md"]).steps

    assert [step.controller_task_spec.type for step in steps] == [StepType.READ, StepType.PATCH, StepType.REVIEW]


@pytest.mark.parametrize(
    ("context", "files", "language"),
    [
        ({"language": "Golang"}, ["a.x"], "go"),
        ({"test_command": "cargo test"}, ["a.x"], "rust"),
        ({}, ["a.tsx", "b.js", "c.ts"], "typescript"),
        ({"manifests": {"go.mod": ""}}, ["Dockerfile"], "go"),
        ({"files": ["package.json", "tsconfig.json"]}, ["x.css"], "typescript"),
        ({"files": ["x.cc", "y.h", "z.py"]}, ["Dockerfile"], "cpp"),
    ],
)
def test_the_language_is_told_or_inferred(context: dict[str, Any], files: list[str], language: str) -> None:
    made = drafted("Fix it", files, **context)

    assert made.document is not None
    assert made.document["language"] == language


def test_a_long_goal_is_cut_to_the_size_of_an_intent() -> None:
    made = drafted("Fix it " + "very \x07 long\n" * 300, ["a.py"])

    assert all(len(step.intent) <= 500 and "\n" not in step.intent and "\x07" not in step.intent for step in made.steps)
    assert made.steps[0].intent.endswith("…")


def test_words_of_a_goal_that_look_like_a_placeholder_stay_what_they_are() -> None:
    assert drafted("Fix {goal} and {0}", ["a.py"]).steps[0].intent.endswith("Fix {goal} and {0}")


def test_constraints_reach_the_controller() -> None:
    goal = Goal.model_validate(
        {"goal": "Fix it", "allowed_files": ["a.py"], "constraints": ["keep the API", "no deps"]}
    )
    made = plan(goal)
    assert isinstance(made, Draft)
    assert {step.guidance for step in made.steps} == {"keep the API; no deps"}


def test_a_template_allows_it_where_documentation_stands_beside_a_change() -> None:
    files = ["src/a.py", "tests/test_a.py", "docs/a.md"]
    steps = {step.step_id: step for step in drafted("add a login", files).steps}

    assert {name for name, step in steps.items() if step.allow_empty} == {"update-docs"}


def test_a_template_joins_the_pieces_of_a_row() -> None:
    files = ["Dockerfile", *[f"src/{number}.py" for number in range(12)]]
    steps = [step for step in drafted("fix the login", files).steps if step.mode is Mode.PATCH]

    assert len(steps) > 1
    assert {step.piece_of for step in steps} == {steps[0].step_id}
    assert [step.allow_empty for step in steps] == [*[True] * (len(steps) - 1), False]


@pytest.mark.parametrize("text", ["Refactor utils", "Add prefix support", "Write tests for the cart"])
def test_no_step_runs_a_file_beside_tests_in_the_place_of_tests(text: str) -> None:
    """pytest fails where it is given nothing but such a file."""
    made = drafted(text, ["src/a.py", "tests/conftest.py"], test_command="pytest -q")

    commands = [tool.argv for step in made.steps for tool in step.verify_tools if tool.tool == "pytest"]
    assert commands
    assert set(commands) == {("pytest", "-q")}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Fix the total, which is wrong", ["locate-source"]),
        ("Add a discount", ["design-approach"]),
        ("Refactor the cart", ["plan-refactor"]),
        ("The build fails, mend it", ["analyze-build"]),
        ("Upgrade the dependency requests", ["analyze-deps"]),
        ("Rename the total to a sum", ["plan-refactor"]),
        ("Change the greeting", ["analyze"]),
        ("Observe how long answers take", []),
    ],
)
def test_the_last_step_that_names_files_before_a_change_is_asked_for_places(text: str, asked: list[str]) -> None:
    made = drafted(text, ["src/**", "tests/**", "requirements.txt"], language="python")

    assert [step.step_id for step in made.steps if step.finds_places] == asked


def test_where_one_file_may_change_nobody_is_asked_for_places() -> None:
    made = drafted("Refactor the cart", ["src/cart.py"], language="python")

    assert not any(step.finds_places for step in made.steps)


def test_what_analyses_is_asked_for_places_where_nothing_locates() -> None:
    log = 'File "src/cart.py", line 3, in total\nValueError'
    named: Any = {"failing_tests": ["tests/test_cart.py::test_total"], "files": ["src/cart.py", "src/price.py"]}
    made = drafted("Fix the total", ["src/**", "tests/**"], language="python", **named)
    traced = drafted("Fix the total", ["src/**", "tests/**"], language="python", failure_log=log, **named)

    assert [step.step_id for step in made.steps if step.finds_places] == ["analyze-failure"]
    assert not any(step.finds_places for step in traced.steps)
