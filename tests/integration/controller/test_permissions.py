"""What a step may change by patterns, as the reference controller holds it: before anything is verified or landed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.outcome import ReleaseKind
from tests.support.controlling import BRANCH, FIX, PYTEST, Planner, Repo, evidence
from worker.controller.logs_folder import LogsFolder

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
PATTERNS: dict[str, Any] = {
    "allowed_patterns": ["*.py", "src/**", "locale/**", ".github/**"],
    "excluded_patterns": ["test_calc.py", "src/secret/**", "src/login.py"],
    "limits": {"max_diff_lines": 200, "max_files": 2, "max_risk": "LOW"},
}
PO = "os.makedirs('locale'); [write(f'locale/{n}.po', n) for n in ('a', 'b', 'c')]"


def made(path: str, text: str = "x") -> str:
    """Tell the agent to write a file in a folder that may be new."""
    return f"os.makedirs('{Path(path).parent}', exist_ok=True); write('{path}', '{text}')"


@pytest.fixture
def logs(tmp_path: Path) -> LogsFolder:
    folder = LogsFolder(tmp_path / "logs")
    folder.make()
    return folder


def test_patterns_admit_new_files_too_and_are_echoed(planner: Planner, repo: Repo, start: Start) -> None:
    planner.send("fix", intent=f"{FIX}; {made('src/deep/new.py')}", verify_tools=[PYTEST], **PATTERNS)
    planner.send("plain", intent="write('words.py', 'x')", allowed_files=["words.py"])
    start()

    outcome = planner.outcome("fix")

    assert outcome.success
    assert outcome.patterns is True
    assert (outcome.touched_files, outcome.created_files) == (("calc.py", "src/deep/new.py"), ("src/deep/new.py",))
    assert planner.outcome("plain").patterns is None
    assert repo.landed() == ["calc.py", "src/deep/new.py", "words.py"]


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("src/secret/a.py", "ALLOWLIST_VIOLATION"),  # excluded
        ("src/.env", "ALLOWLIST_VIOLATION"),  # forbidden, whatever the plan says
        ("conftest.py", "ALLOWLIST_VIOLATION"),  # configures the verification
        ("src/conftest.py", "ALLOWLIST_VIOLATION"),
        ("src/tox.ini", "ALLOWLIST_VIOLATION"),
        (".github/workflows/ci.yml", "ALLOWLIST_VIOLATION"),
        ("src/migrations/0001.py", "RISK_EXCEEDED"),
        ("src/login.py", "RISK_EXCEEDED"),  # excluded because of its risk, which the plan can do something about
    ],
)
def test_what_patterns_do_not_admit_is_named_and_discarded(
    planner: Planner, repo: Repo, start: Start, path: str, category: str
) -> None:
    planner.send("fix", intent=f"{FIX}; {made(path)}", **PATTERNS)
    start()

    found = evidence(planner.outcome("fix"))

    assert (found.category, found.affected_files) == (category, (path,))
    assert repo.landed() == []


def test_what_is_named_literally_may_be_changed_whatever_it_configures(
    planner: Planner, repo: Repo, start: Start
) -> None:
    planner.send("fix", intent="write('conftest.py', '')", allowed_files=["conftest.py"], **PATTERNS)
    start()

    assert planner.outcome("fix").success
    assert repo.landed() == ["conftest.py"]


def test_a_named_file_is_never_too_risky_for_the_step_whose_level_it_made(
    planner: Planner, repo: Repo, start: Start
) -> None:
    planner.send("fix", intent=made("src/login.py"), allowed_files=["src/login.py"], **PATTERNS)
    start()

    assert planner.outcome("fix").success


def test_an_ignored_file_is_meant_by_its_name_alone(planner: Planner, repo: Repo, start: Start) -> None:
    repo.commit_on("main", ".gitignore", "src/made/\n")
    repo.git("reset", "--quiet", "--hard")
    build = f"{made('src/made/a.py')}; write('src/made/b.py', ''); {FIX}"
    planner.send("fix", intent=build, allowed_files=["src/made/a.py"], **PATTERNS)
    start()

    assert planner.outcome("fix").touched_files == ("calc.py", "src/made/a.py")


@pytest.mark.parametrize(
    "change",
    [
        "write('test_calc.py', 'def test_adds(): pass\\n')",
        "os.remove('test_calc.py')",
        "os.remove('test_calc.py'); os.makedirs('test_calc.py'); write('test_calc.py/x', '')",
    ],
)
def test_a_change_of_the_failing_tests_is_undone_before_they_verify(
    planner: Planner, repo: Repo, start: Start, change: str
) -> None:
    about = {"base_sha": None, "failing_tests": ["test_calc.py::test_adds"]}
    for name, first in (("cheat", "pass"), ("fix", FIX)):
        planner.send(name, intent=f"{first}; {change}", context=about, verify_tools=[PYTEST], **PATTERNS)
    start()

    cheat, fix = planner.outcome("cheat"), planner.outcome("fix")

    assert evidence(cheat).category == "TEST_REGRESSION"
    assert cheat.touched_files == ()
    assert fix.success
    assert set(fix.discarded_files) <= {"test_calc.py", "test_calc.py/x"}
    assert "test_calc.py" in fix.discarded_files
    assert repo.landed() == ["calc.py"]


def test_a_failing_test_that_is_named_may_be_changed(planner: Planner, repo: Repo, start: Start) -> None:
    about = {"base_sha": None, "failing_tests": ["test_calc.py::test_adds"]}
    change = "write('test_calc.py', 'def test_adds(): pass\\n')"
    planner.send("fix", intent=change, context=about, allowed_files=["test_calc.py"], **PATTERNS)
    start()

    assert planner.outcome("fix").discarded_files == ()
    assert repo.landed() == ["test_calc.py"]


def test_too_many_files_are_no_violation_and_are_verified_all_the_same(
    planner: Planner, repo: Repo, start: Start
) -> None:
    planner.send("many", intent=f"{PO}; {FIX}", verify_tools=[PYTEST], **PATTERNS)
    start()

    outcome = planner.outcome("many")

    assert evidence(outcome).category == "TOO_MANY_FILES"
    assert outcome.tests_passed is True
    assert outcome.touched_files == ("calc.py", "locale/a.po", "locale/b.po", "locale/c.po")
    assert repo.landed() == []


def test_pieces_of_a_change_that_is_kept_here_need_no_agent(
    planner: Planner, repo: Repo, start: Start, logs: LogsFolder
) -> None:
    start(logs=logs)
    many = f"{PO}; {FIX}; os.remove('words.py'); os.chmod('calc.py', 0o755)"
    planner.send("many", intent=many, verify_tools=[PYTEST], **PATTERNS)
    assert evidence(planner.outcome("many")).category == "TOO_MANY_FILES"

    nobody = "raise SystemExit('an agent was asked')"
    piece: dict[str, Any] = {"intent": nobody, "piece_of": "many"}
    planner.send("many-1", **piece, allowed_files=["locale/a.po", "locale/b.po"])
    planner.send("many-2", **piece, allowed_files=["locale/c.po", "words.py"])
    planner.send("many-3", **piece, allowed_files=["calc.py"], verify_tools=[PYTEST])

    for name in ("many-1", "many-2", "many-3"):
        outcome = planner.outcome(name)
        assert outcome.success, name
        assert outcome.metrics
        assert (outcome.metrics.tokens_used, outcome.metrics.patch_cycles) == (0, 0)
    assert repo.landed() == ["calc.py", "locale/a.po", "locale/b.po", "locale/c.po", "words.py"]
    assert "words.py" not in repo.git("ls-tree", "--name-only", BRANCH).splitlines()
    assert repo.git("ls-tree", BRANCH, "calc.py").startswith("100755")


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (f"{PO}; write('calc.py', 'broken(')", {}),  # its verification was red
        (f"{PO}; {FIX}", {"attempt": 2, "context": {"base_sha": None, "previous_failure": {"category": "X"}}}),
        (f"{PO}; {FIX}", {"allowed_files": ["locale/a.po", "words.py"]}),  # which was not changed
        (f"{PO}; {FIX}", {"piece_of": None}),
    ],
)
def test_an_agent_does_a_piece_that_is_not_kept_as_it_has_to_be(
    planner: Planner, start: Start, logs: LogsFolder, first: str, piece: dict[str, Any]
) -> None:
    start(logs=logs)
    planner.send("many", intent=first, verify_tools=[PYTEST], **PATTERNS)
    planner.outcome("many")

    usual: dict[str, Any] = {"piece_of": "many", "allowed_files": ["locale/a.po"]}
    planner.send("piece", intent=f"{made('locale/a.po')}; report(tokens_used=7)", **usual | piece)
    outcome = planner.outcome("piece")

    assert outcome.success
    assert outcome.metrics
    assert outcome.metrics.tokens_used == 7


def test_a_piece_whose_file_a_sibling_has_changed_since_goes_to_an_agent(
    planner: Planner, repo: Repo, start: Start, logs: LogsFolder
) -> None:
    start(logs=logs)
    planner.send("many", intent=f"{PO}; {FIX}", verify_tools=[PYTEST], **PATTERNS)
    planner.outcome("many")
    planner.send("other", intent="write('calc.py', 'z = 1')", allowed_files=["calc.py"])
    assert planner.outcome("other").success

    planner.send("piece", intent=f"{FIX}; report(tokens_used=7)", allowed_files=["calc.py"], piece_of="many")

    metrics = planner.outcome("piece").metrics
    assert metrics
    assert metrics.tokens_used == 7


@pytest.mark.parametrize(
    "answer",
    [
        "report(needs={'files': ['./docs/a.md', 'calc.py'], 'reason': 'it is documented'})",
        "print('NEEDS FILES: `docs/a.md`, calc.py\\nit is documented')",
        "print('NEEDS FILES:\\n\\n- docs/a.md\\n- calc.py\\n\\nit is documented')",
        "print(json.dumps({'needs': {'files': ['docs/a.md'], 'reason': 'it is documented'}}))",
    ],
)
def test_an_agent_says_which_other_files_it_needs(planner: Planner, repo: Repo, start: Start, answer: str) -> None:
    planner.send("fix", intent=f"{FIX}; {answer}", verify_tools=[PYTEST], **PATTERNS)
    start()

    outcome = planner.outcome("fix")

    assert not outcome.success
    assert outcome.needs
    assert (outcome.needs.files, outcome.needs.reason) == (("docs/a.md",), "it is documented")
    assert outcome.verify == ()
    assert repo.landed() == []


def test_what_may_be_changed_anyway_is_no_need(planner: Planner, start: Start) -> None:
    planner.send("fix", intent="report(needs={'files': ['src/a.py'], 'reason': 'x'})", **PATTERNS)
    start()

    outcome = planner.outcome("fix")

    assert outcome.needs is None
    assert "src/a.py" in (evidence(outcome).suggestion or "")


def test_a_step_that_requires_what_nobody_here_understands_is_handed_back(planner: Planner, start: Start) -> None:
    planner.send("odd", intent=FIX, allowed_files=["calc.py"], requires=["patterns", "teleport"])
    planner.send("fine", intent=FIX, allowed_files=["calc.py"], requires=["patterns"])
    start()

    released = planner.outcome("odd").released

    assert released
    assert "teleport" in released.reason
    assert released.kind is ReleaseKind.REQUIRES
    assert planner.outcome("fine").success


def test_a_long_list_of_files_is_cut_and_counted(planner: Planner, start: Start) -> None:
    many = "os.makedirs('locale'); [write(f'locale/{n:04}-' + 'x' * 100, '') for n in range(1200)]"
    planner.send("many", intent=many, **PATTERNS)
    start()

    outcome = planner.outcome("many")

    assert evidence(outcome).category == "TOO_MANY_FILES"
    assert outcome.touched_count == 1200
    assert 500 < len(outcome.touched_files) < 1200


@pytest.mark.parametrize("secret", ["hunter2-of-the-host", "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2])
def test_a_change_with_a_secret_in_it_never_lands_and_names_the_file_alone(
    planner: Planner, repo: Repo, start: Start, logs: LogsFolder, secret: str
) -> None:
    start(logs=logs, secrets=("hunter2-of-the-host",))
    planner.send("fix", intent=f"{FIX}; write('words.py', 'KEY = {secret}')", verify_tools=[PYTEST], **PATTERNS)

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == "HYGIENE_VIOLATION"
    assert evidence(outcome).affected_files == ("words.py",)
    assert secret not in outcome.model_dump_json()
    assert outcome.verify == ()
    assert repo.landed() == []
    kept = [file.read_bytes() for file in logs.path.rglob("*") if file.is_file() and file.name != "spec.json"]
    assert kept
    assert not [text for text in kept if secret.encode() in text]


def test_a_secret_that_stands_in_the_file_already_is_no_leak_of_the_change(
    planner: Planner, repo: Repo, start: Start
) -> None:
    repo.commit_on("main", "words.py", "KEY = 'hunter2-of-the-host'\n")
    change = "write('words.py', \"KEY = 'hunter2-of-the-host'\\nz = 1\\n\")"
    planner.send("fix", intent=change, **PATTERNS)
    start(secrets=("hunter2-of-the-host",))

    assert planner.outcome("fix").success


def test_an_agent_gets_the_variables_that_it_needs_and_no_secret_of_the_host(
    planner: Planner, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "MY_AGENT_KEY", "DATABASE_URL", "LC_ALL"):
        monkeypatch.setenv(name, f"C.{name}")
    show = f"write('{tmp_path}/seen', json.dumps(dict(os.environ)))"
    planner.send("look", mode="read_only", intent=show)
    test = "import os, json, pathlib; pathlib.Path('{}').write_text(json.dumps(dict(os.environ)))".format(
        tmp_path / "verified"
    )
    tool = {"tool": "pytest", "argv": ["python", "-c", test], "timeout_s": 60}
    planner.send("fix", intent=FIX, verify_tools=[tool], **PATTERNS)
    start(agent_env=("MY_AGENT_KEY", "DATABASE_URL"))

    assert planner.outcome("look").success
    assert planner.outcome("fix").success

    seen, verified = (json.loads((tmp_path / name).read_text()) for name in ("seen", "verified"))
    assert {"PATH", "HOME", "LC_ALL", "MY_AGENT_KEY", "DATABASE_URL"} <= seen.keys()
    assert "GITHUB_TOKEN" not in seen
    assert "DATABASE_URL" in verified
    assert "MY_AGENT_KEY" not in verified
