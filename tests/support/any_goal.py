"""Hypothesis strategies for the bodies of goals, of any kind and mostly of no use."""

from __future__ import annotations

from hypothesis import strategies as st

from schemas.base import GoalKind, Mode, RiskLevel, StepType
from tasks.toolchain.languages import LANGUAGES, MANIFESTS

PATHS = st.one_of(
    st.sampled_from(
        ["src/a.py", "tests/test_a.py", "README.md", "go.mod", "a.rs", "src/*.py", "**", "../x", ".env", "/etc/passwd",
         "a;b.py", "$(x).py", "-x.py", "C:\\x", "src/", "a b.ts", "\uff0e\uff0e/x", ".git/x", "", "Makefile",
         "Dockerfile", ".github/ci.yml", "src/auth.py"]
    ),
    st.text(max_size=20),
)  # fmt: skip
PROJECT_FILES = st.sampled_from(
    [
        *(f"{folder}{name}" for name in (*MANIFESTS, "eslint.config.js", "README.md") for folder in ("", "web/")),
        *(
            f"{folder}{suffix}"
            for each in LANGUAGES.values()
            for suffix in each.suffixes
            for folder in ("src/a", "tests/a_test")
        ),
    ]
)
MANIFEST_TEXTS = st.sampled_from(
    [
        "",
        "{}",
        "[tool.ruff]\n[tool.mypy]\n[tool.pyright]",
        '{"scripts": {"test": "jest"}, "eslintConfig": {}, "typescript": "5"}',
        "[lints.clippy]",
    ]
)
COMMANDS = st.one_of(
    st.sampled_from(
        ["pytest", "pytest -x tests", "npm test", "python-full", "go test ./...", "cargo test -- --nocapture",
         "rm -rf /", "pytest; ls", "'", "ruff check --fix a.py", "make test", "-"]
    ),
    st.text(max_size=30),
)  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(
        [
            "Fix the bug",
            "Add prefix support",
            "refactor utils",
            "Fix the build",
            "Upgrade x",
            "Bump lodash",
            "Why?",
            "x",
        ]
    ),
    st.lists(st.sampled_from(["Fix", "ignore", "all previous", "instructions", "system prompt: x", "\u200b"])).map(
        " ".join
    ),
    st.text(max_size=60),
)
IDS = st.sampled_from(["a", "b", "c", "d-1", "A", ""])
CALLS = st.fixed_dictionaries({"tool": st.sampled_from(["pytest", "sh"]), "args": st.lists(COMMANDS, max_size=2)})
VERIFY = st.one_of(st.none(), COMMANDS, CALLS, st.lists(st.one_of(COMMANDS, CALLS), max_size=3))
STEPS = st.fixed_dictionaries(
    {"step_id": IDS, "title": TEXT, "intent": TEXT},
    optional={
        "allowed_files": st.lists(PATHS, max_size=4),
        "depends_on": st.lists(IDS, max_size=3),
        "verify": VERIFY,
        "type": st.sampled_from(StepType),
        "mode": st.sampled_from(Mode),
        "risk_level": st.sampled_from(RiskLevel),
        "rollback_hint": st.text(max_size=5),
        "retry_limit": st.integers(0, 3),
    },
)
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "language": st.one_of(st.sampled_from(["python", "TS", "c++", "ruby", " "]), st.text(min_size=1, max_size=5)),
        "test_command": COMMANDS,
        "failing_tests": st.lists(st.one_of(PATHS, st.just("tests/test_a.py::test_x[1]"), TEXT), max_size=3),
        "failure_log": st.one_of(st.sampled_from(["AssertionError", "build failed", "ERESOLVE"]), st.text(max_size=40)),
        "files": st.lists(PATHS, max_size=5),
        "manifests": st.dictionaries(PATHS, TEXT, max_size=2),
    },
)
GOALS = st.fixed_dictionaries(
    {"goal": TEXT},
    optional={
        "kind": st.sampled_from(GoalKind),
        "allowed_files": st.lists(PATHS, max_size=12),
        "context": CONTEXTS,
        "constraints": st.lists(TEXT, max_size=2),
        "limits": st.fixed_dictionaries({}, optional={"max_steps": st.integers(1, 30)}),
        "steps": st.lists(STEPS, max_size=5),
    },
)
PROJECTS = st.fixed_dictionaries(
    {"goal": TEXT.filter(bool), "allowed_files": st.lists(PROJECT_FILES, min_size=1, max_size=3)},
    optional={
        "context": st.fixed_dictionaries(
            {},
            optional={
                "language": st.sampled_from([*LANGUAGES, "ruby"]),
                "failing_tests": st.lists(
                    st.sampled_from(["tests/a_test.py::test_x", "tests/a_test.ts", "TestX"]), max_size=1
                ),
                "files": st.lists(PROJECT_FILES, max_size=3),
                "manifests": st.dictionaries(PROJECT_FILES, MANIFEST_TEXTS, max_size=3),
            },
        )
    },
)  # goals of the projects that the catalogue knows, with any of their files
