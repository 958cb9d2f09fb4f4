"""The reference controller on a real server and a real git repository; agent and planner are played by the test."""

from __future__ import annotations

import ast
import hashlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import wait_until
from tests.support.controlling import BRANCH, FILES, FIX, PLAN, PYTEST, STREAM, Planner, Repo, clone_with, evidence
from tests.support.job_time import time_begins_when
from tests.support.left_behind import is_alive
from worker.agents.agent import named_agent
from worker.controller import ControllerConfig, loop, programs, run

ROOT = Path(__file__).parents[3]


def test_a_verified_change_is_on_the_branch_when_its_outcome_arrives(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    fix = f"{FIX}; write('notes.md', 'x' * 3000); report(tokens_used=1200, patch_cycles=2, tool_calls=7)"
    planner.send("fix", intent=fix, allowed_files=["calc.py", "notes.md", "words.py"], verify_tools=[PYTEST])
    start()

    outcome = planner.outcome("fix")

    assert repo.landed() == ["calc.py", "notes.md"]
    assert outcome.success
    assert outcome.tests_passed
    assert outcome.touched_files == ("calc.py", "notes.md")
    assert outcome.created_files == ("notes.md",)
    assert outcome.growth_kb == 3
    assert outcome.diff_hash
    assert outcome.metrics
    assert (outcome.metrics.tokens_used, outcome.metrics.patch_cycles, outcome.metrics.tool_calls) == (1200, 2, 7)
    assert outcome.metrics.duration_ms
    assert outcome.verify
    assert [(receipt.tool, receipt.exit_code) for receipt in outcome.verify] == [("pytest", 0)]
    assert (outcome.plan_id, outcome.attempt, outcome.lease) == (PLAN, 1, "lease-of-fix")
    wait_until(lambda: planner.pending() == 0, what="acknowledged")


def test_the_outcomes_entry_names_the_attempt_beside_the_data(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("look", mode="read_only", intent="report(output={'files': 3})")
    start()
    planner.outcome("look")

    [(_, fields)] = planner.entries()

    assert {key: value for key, value in fields.items() if key != b"data"} == {
        b"plan_id": PLAN.encode(), b"step_id": b"look", b"attempt": b"1", b"lease": b"lease-of-look",
    }  # fmt: skip


def test_the_persons_own_checkout_and_branch_stay_as_they_are(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    before = repo.git("rev-parse", "main")
    (repo.path / "words.py").write_text("unsaved work\n")
    planner.send("fix", intent=FIX, allowed_files=["calc.py"])
    start()
    planner.outcome("fix")

    assert repo.git("rev-parse", "main") == before
    assert repo.git("status", "--porcelain") == "M words.py"


def test_two_controllers_at_the_same_time_both_land_on_the_branch(
    planner: Planner, repo: Repo, start: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "meeting").mkdir()
    for name in ("calc", "words"):
        together = f"meet('{tmp_path}/meeting/{name}'); write('{name}.py', '# by {name}')"
        planner.send(name, intent=together, allowed_files=[f"{name}.py"])
    start()
    start()

    assert planner.outcome("calc").success
    assert planner.outcome("words").success
    assert repo.landed() == ["calc.py", "words.py"]
    assert repo.git("rev-list", "--count", "--no-merges", f"main..{BRANCH}") == "2"


def test_a_change_that_contradicts_a_siblings_is_a_failure_and_the_next_step_goes_on(
    planner: Planner, repo: Repo, start: Callable[..., None], tmp_path: Path
) -> None:
    patient = "write('ready', ''); wait_for('go'); os.remove('ready'); os.remove('go'); write('calc.py', 'ours')"
    planner.send("clash", intent=patient, allowed_files=["calc.py"])
    planner.send("next", intent="write('words.py', 'fine')", allowed_files=["words.py"])
    start()
    clone = clone_with(tmp_path, "ready")
    repo.commit_on(BRANCH, "calc.py", "theirs")
    (clone / "go").touch()

    assert evidence(planner.outcome("clash")).category == "UNKNOWN"
    assert planner.outcome("next").success
    assert repo.git("show", f"{BRANCH}:calc.py") == "theirs"


@pytest.mark.parametrize(
    ("intent", "category", "files"),
    [
        ("write('words.py', '')", "ALLOWLIST_VIOLATION", ("words.py",)),
        ("write('new.py', '')", "ALLOWLIST_VIOLATION", ("new.py",)),
        ("os.remove('words.py')", "ALLOWLIST_VIOLATION", ("words.py",)),
        ("os.rename('words.py', 'calc.py')", "ALLOWLIST_VIOLATION", ("words.py",)),
        ("os.rename('calc.py', 'other.py')", "ALLOWLIST_VIOLATION", ("other.py",)),
        ("os.chmod('words.py', 0o755)", "ALLOWLIST_VIOLATION", ("words.py",)),
        ("git('rm', 'words.py'); commit()",
         "ALLOWLIST_VIOLATION", ("words.py",)),
        ("write('straße ä\\n.py', '')", "ALLOWLIST_VIOLATION", ("straße ä\n.py",)),
        ("open(b'\\xff.py', 'w')", "ALLOWLIST_VIOLATION", ("\ufffd.py",)),
        ("git('init', 'inner'); git('-C', 'inner', '-c', 'user.name=a', '-c', 'user.email=a@a', "
         "'commit', '--allow-empty', '-m', 'a')", "ALLOWLIST_VIOLATION", ("inner/.git",)),
        ("os.remove('calc.py'); os.symlink('/etc/passwd', 'calc.py')", "SANDBOX_VIOLATION", ("calc.py",)),
        ("os.remove('calc.py'); os.symlink('../../x', 'calc.py')", "SANDBOX_VIOLATION", ("calc.py",)),
        ("os.symlink('.', 'here'); os.remove('calc.py'); os.symlink('here/../x', 'calc.py')",
         "SANDBOX_VIOLATION", ("calc.py",)),
        ("os.remove('calc.py'); os.symlink('.git', 'calc.py')", "SANDBOX_VIOLATION", ("calc.py",)),
        ("write('calc.py', '\\n' * 500)", "UNKNOWN", ()),
    ],
)  # fmt: skip
def test_a_strict_controller_names_and_discards_a_change_that_is_not_allowed(
    planner: Planner, repo: Repo, start: Callable[..., None], intent: str, category: str, files: tuple[str, ...]
) -> None:
    planner.send("fix", intent=intent, allowed_files=["calc.py"], verify_tools=[PYTEST])
    start(is_strict=True)

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == category
    assert evidence(outcome).affected_files == files
    assert set(files) <= set(outcome.touched_files)
    assert outcome.verify == ()  # what is not allowed is not run either
    assert repo.landed() == []


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    "intent",
    [
        "open(b'\\xff.py', 'w')",
        "write('conftest.py', 'import os; os._exit(0)')",
        "write('.env', '')",
        "os.remove('words.py'); os.symlink('calc.py', 'words.py')",
        "os.mkfifo('pipe')",
        "git('init', 'inner')",
        "os.symlink('/etc', 'etc')",
    ],
)
def test_what_is_no_plain_file_or_is_forbidden_or_configures_a_verification_is_never_put_back(
    planner: Planner, repo: Repo, start: Callable[..., None], intent: str, is_strict: bool
) -> None:
    planner.send("fix", intent=f"{intent}; {FIX}", allowed_files=["calc.py"], verify_tools=[PYTEST])
    start(is_strict=is_strict)

    outcome = planner.outcome("fix")

    assert evidence(outcome).category in ("ALLOWLIST_VIOLATION", "SANDBOX_VIOLATION")
    assert (outcome.verify, outcome.discarded_files) == ((), ())
    assert repo.landed() == []


@pytest.mark.parametrize(
    ("intent", "files"),
    [
        ("write('words.py', 'broken(')", ("words.py",)),
        ("write('new.py', '')", ("new.py",)),
        ("os.remove('words.py')", ("words.py",)),
        ("os.remove('words.py'); os.mkdir('words.py'); write('words.py/x', '')", ("words.py", "words.py/x")),
        ("os.chmod('words.py', 0o755)", ("words.py",)),
        ("git('rm', 'words.py'); commit()", ("words.py",)),
        ("os.makedirs('a/b'); write('a/b/straße ä.py', '')", ("a/b/straße ä.py",)),
        ("write('test_calc.py', 'def test_adds(): assert False')", ("test_calc.py",)),
        ("open('scratch', 'w').truncate(200 * 1024 * 1024)", ("scratch",)),
    ],
)
def test_plain_files_that_the_step_may_not_change_are_put_back_before_anything_runs(
    planner: Planner, repo: Repo, start: Callable[..., None], intent: str, files: tuple[str, ...]
) -> None:
    planner.send("fix", intent=f"{intent}; {FIX}", allowed_files=["calc.py"], verify_tools=[PYTEST])
    start()

    outcome = planner.outcome("fix")

    assert outcome.success
    assert (outcome.discarded_files, outcome.touched_files, outcome.created_files) == (files, ("calc.py",), ())
    assert repo.landed() == ["calc.py"]


def test_what_git_ignores_is_gone_before_the_verification_and_never_listed(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    repo.commit_on("main", ".gitignore", "*.so\nbuild/\n")
    repo.git("reset", "--quiet", "--hard")
    left = "write('math.so', ''); os.makedirs('build/x'); write('build/x/y', ''); os.mkdir('node_modules')"
    left += "; write('node_modules/z', '')"
    look = "import os; raise SystemExit(any(map(os.path.exists, ['build/x/y', 'node_modules/z', 'math.so'])))"
    tool = {"tool": "pytest", "argv": ["python", "-c", look], "timeout_s": 60}
    planner.send("fix", intent=f"{left}; {FIX}", allowed_files=["calc.py"], verify_tools=[tool])
    planner.send("named", intent=f"{left}; {FIX}", allowed_files=["calc.py", "math.so"], verify_tools=[PYTEST])
    start()

    fix = planner.outcome("fix")

    assert fix.success
    assert fix.discarded_files == ()
    assert planner.outcome("named").touched_files == ("math.so",)


def test_the_answer_of_an_agent_that_changed_files_counts_and_they_are_put_back(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    change = f"{FIX}; write('conftest.py', ''); commit(); print('it is in calc.py')"
    planner.send("look", mode="read_only", intent=change, allowed_files=["calc.py"])
    start()

    outcome = planner.outcome("look")

    assert (outcome.success, outcome.output) == (True, "it is in calc.py")
    assert (outcome.discarded_files, outcome.touched_files) == (("calc.py", "conftest.py"), ())
    assert repo.landed() == []


def test_a_strict_controller_refuses_the_answer_of_an_agent_that_changed_a_file(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("look", mode="read_only", intent=FIX, allowed_files=["calc.py"])
    start(is_strict=True)

    assert evidence(planner.outcome("look")).category == "ALLOWLIST_VIOLATION"
    assert repo.landed() == []


@pytest.mark.parametrize(
    ("intent", "output"),
    [
        ("report(output={'files': ['calc.py'], 'empty': []})", {"files": ["calc.py"], "empty": []}),
        ("print('It is fine.\\nReally.')", "It is fine.\nReally."),
        ("report(output='x' * 65000)", "x" * 65000),
        (
            "print(json.dumps({'steps': [{'id': 'a', 'files': None}]}, indent=2))",
            {"steps": [{"id": "a", "files": None}]},
        ),
        ("print('[1, 2]')", [1, 2]),
        ('print(\'{"summary": "on one line"}\')', {"summary": "on one line"}),
        ("print('Thinking.'); print('{\"a\": 1}')", 'Thinking.\n{"a": 1}'),
        ("print(7)", "7"),
        ("print('x' * 70000)", "x" * 32 * 1024),
        ("report(tokens_used=3)", None),
        ("report(success=True, tests_passed=True, touched_files=['a.py'], metrics={'tokens_used': 3})", None),
        ("report(success=True, output='in calc.py', metrics={'tokens_used': 3})", "in calc.py"),
        ("print(json.dumps({'success': True, 'step_id': 'look', 'output': [1]}, indent=2))", [1]),
        ("report(success=True)", None),
        ("print(json.dumps({'success': True, 'answer': 42}))", {"success": True, "answer": 42}),
        ("pass", None),
    ],
)
def test_the_agents_answer_is_the_output(
    planner: Planner, start: Callable[..., None], intent: str, output: object
) -> None:
    planner.send("look", mode="read_only", intent=intent)
    start()

    outcome = planner.outcome("look")

    assert outcome.success
    assert outcome.output == output
    assert outcome.tests_passed is None


DRAFT: dict[str, Any] = {
    "mode": "read_only",
    "controller_task_spec": {"type": "DRAFT"},
    "input": {"prompt": "Plan it.\n| data", "schema": {"type": "object"}, "validation_mode": "strict"},
}


@pytest.mark.parametrize("kind", ["DRAFT", "EXPLORE", "REVIEW"])
def test_an_agent_is_given_the_input_of_its_step_and_answers_it(
    kind: str, planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    asked = {**DRAFT, "controller_task_spec": {"type": kind}}
    planner.send("draft", **asked, intent="report(tokens_used=5, output={'heard': spec['input'], 'none': None})")
    start()

    outcome = planner.outcome("draft")

    assert outcome.success
    assert outcome.output == {"heard": DRAFT["input"], "none": None}
    assert outcome.metrics
    assert (outcome.metrics.tokens_used, outcome.metrics.patch_cycles) == (5, 0)
    assert outcome.touched_files == ()
    assert repo.landed() == []


def test_an_answer_to_the_input_is_never_cut(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("draft", **DRAFT, intent="print('{' + 'x' * 40000)")
    planner.send("longer", **DRAFT, intent="print('x' * 70000)")
    start()

    assert planner.outcome("draft").output == "{" + "x" * 40000
    assert "make it shorter" in (evidence(planner.outcome("longer")).suggestion or "")


def test_an_answer_to_the_input_leaves_the_tree_as_it_was(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    planner.send("draft", **DRAFT, intent="write('plan.json', '{}'); print('{\"a\": 1}')")
    planner.send("look", mode="read_only", intent="report(output=sorted(os.listdir()))")
    start()

    assert planner.outcome("draft").discarded_files == ("plan.json",)
    assert planner.outcome("draft").output == {"a": 1}
    assert planner.outcome("look").output == [".git", *sorted(FILES)]
    assert repo.landed() == []


def test_an_answer_over_the_limit_fails_with_the_way_out(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("look", mode="read_only", intent="report(output='x' * 70000)")
    start()

    assert "make it shorter" in (evidence(planner.outcome("look")).suggestion or "")


@pytest.mark.outages
def test_what_caches_and_the_verification_leave_behind_is_no_change(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    noise = "subprocess.run([sys.executable, '-m', 'pytest', '-q'], env={**os.environ, 'PYTHONDONTWRITEBYTECODE': ''})"
    writes = {"tool": "python", "argv": ["python", "-c", "open('coverage.xml', 'w')"], "timeout_s": 60}
    planner.send("fix", intent=f"{noise}; {FIX}", allowed_files=["calc.py"], verify_tools=[writes])
    start()

    outcome = planner.outcome("fix")

    assert outcome.success, outcome.error_message
    assert outcome.touched_files == ("calc.py",)


def test_an_allowed_file_counts_although_git_ignores_it(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    (repo.path / ".git/info/exclude").write_text("*.min.js\n")
    planner.send("build", intent="write('a.min.js', ''); write('b.min.js', '')", allowed_files=["a.min.js"])
    start()

    assert planner.outcome("build").touched_files == ("a.min.js",)


def test_an_agent_that_gives_up_tells_why(planner: Planner, repo: Repo, start: Callable[..., None]) -> None:
    intent = f"{FIX}; report(suggestion='look at add', tokens_used=5); sys.exit('ImportError: No module named zlob')"
    planner.send("fix", intent=intent, allowed_files=["calc.py"], verify_tools=[PYTEST])
    start()

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == "IMPORT_ERROR"
    assert evidence(outcome).suggestion == "look at add"
    assert "No module named zlob" in (outcome.error_message or "")
    assert outcome.metrics
    assert outcome.metrics.tokens_used == 5
    assert repo.landed() == []


def test_a_failing_pytest_run_is_evidence_and_the_next_attempt_begins_clean(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    wrong = "write('calc.py', 'def add(a, b):\\n    return a * b + 1\\n'); write('.gitignore', '*')"
    look = "report(output=[open('calc.py').read(), sorted(os.listdir())])"
    planner.send("fix", intent=wrong, allowed_files=["calc.py", ".gitignore"], verify_tools=[PYTEST])
    planner.send("look", intent=look, mode="read_only")
    start()

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == "TEST_REGRESSION"
    assert evidence(outcome).top_failing_tests == ("test_calc.py::test_adds",)
    assert len(evidence(outcome).stack_trace_head or "") <= 500
    assert outcome.tests_passed is False
    assert outcome.verify
    assert outcome.verify[0].exit_code == 1
    assert repo.landed() == []
    assert planner.outcome("look").output == [FILES["calc.py"], [".git", *sorted(FILES)]]


def test_whatever_an_agent_does_to_its_checkout_the_next_attempt_begins_clean(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    mischief = (
        "git('checkout', '-b', 'mine'); git('update-index', '--skip-worktree', 'calc.py'); write('calc.py', 'hidden');"
        "data = subprocess.check_output(['git', 'rev-parse', '--git-dir'], text=True).strip();"
        "write(data + '/index.lock', '');"
        "os.remove('.git'); os.mkdir('.git'); os.mkdir('empty')"
    )
    planner.send("bad", intent=mischief, mode="read_only")
    planner.send("look", intent="report(output=[open('calc.py').read(), sorted(os.listdir())])", mode="read_only")
    start()

    assert planner.outcome("look").output == [FILES["calc.py"], [".git", *sorted(FILES)]]
    assert "mine" not in repo.git("branch", "--list", "--all")


def test_verifications_run_in_order_until_one_fails(planner: Planner, start: Callable[..., None]) -> None:
    def tool(name: str, code: int, passing: list[int]) -> dict[str, Any]:
        argv = ["python", "-c", f"print('{name}'); raise SystemExit({code})"]
        return {"tool": name, "argv": argv, "timeout_s": 60, "pass_codes": passing}

    tools = [tool("one", 0, [0]), tool("two", 5, [0, 5]), tool("three", 1, [0]), tool("four", 0, [0])]
    planner.send("check", mode="test", verify_tools=tools)
    start()

    receipts = planner.outcome("check").verify

    assert receipts
    assert [(receipt.tool, receipt.exit_code) for receipt in receipts] == [("one", 0), ("two", 5), ("three", 1)]
    assert receipts[0].output_digest == "sha256:" + hashlib.sha256(b"one\n").hexdigest()


def test_a_test_step_needs_no_agent(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("check", mode="test", verify_tools=[{"tool": "git", "argv": ["git", "status"], "timeout_s": 60}])
    start(command="")

    outcome = planner.outcome("check")

    assert outcome.tests_passed
    assert outcome.metrics
    assert (outcome.metrics.tokens_used, outcome.metrics.patch_cycles) == (0, 0)


@pytest.mark.parametrize(
    ("argv", "resolved"),
    [
        (("python", "x.py"), [sys.executable, "x.py"]),
        (("pytest", "-q"), [sys.executable, "-m", "pytest", "-q"]),
        (("./run", "x"), ["./run", "x"]),
        (("cargo", "test"), ["cargo", "test"]),
    ],
)
def test_a_python_tool_that_is_not_on_the_path_runs_in_our_interpreter(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], resolved: list[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert programs.resolve(argv) == resolved


def test_a_verification_over_its_time_ends_with_all_of_its_processes(
    planner: Planner, start: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    time_begins_when(lambda: pid.exists() and pid.read_text(), monkeypatch)
    spawn = "import subprocess; p = subprocess.Popen(['sleep', '99']); open('{}', 'w').write(str(p.pid)); p.wait()"
    tool = {"tool": "pytest", "argv": ["python", "-c", spawn.format(pid)], "timeout_s": 1}
    planner.send("check", mode="test", verify_tools=[tool])
    start()

    outcome = planner.outcome("check")

    assert evidence(outcome).category == "TEST_TIMEOUT"
    assert outcome.verify
    assert outcome.verify[0].exit_code == 124
    wait_until(lambda: not is_alive(int(pid.read_text())), what="the grandchild is gone")


def test_an_agent_over_its_time_is_stopped(planner: Planner, repo: Repo, start: Callable[..., None]) -> None:
    planner.send(
        "fix", intent=f"{FIX}; print('busy', file=sys.stderr, flush=True); time.sleep(99)", allowed_files=["calc.py"]
    )
    start(agent_timeout_s=0.7)

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == "UNKNOWN"
    assert "stopped after" in (outcome.error_message or "")
    assert repo.landed() == []


def test_neither_agent_nor_verification_sees_the_controllers_secrets(
    planner: Planner, start: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PLANNER_REDIS_URL", "SENTRY_DSN", "REDIS_PASSWORD"):
        monkeypatch.setenv(name, "secret")
    looks = {"tool": "python", "argv": ["python", "-c", "import os; assert 'secret' not in os.environ.values()"]}
    planner.send("look", intent="assert 'secret' not in os.environ.values()", mode="read_only",
                 verify_tools=[looks | {"timeout_s": 60}])  # fmt: skip
    start()

    assert planner.outcome("look").success


@pytest.mark.parametrize(("held", "why"), [({"lease": "another"}, "stale"), ({"controller": "another"}, "taken")])
def test_an_attempt_that_is_not_ours_is_left_alone(
    planner: Planner, start: Callable[..., None], tmp_path: Path, held: dict[str, str], why: str
) -> None:
    spec = planner.spec("fix", intent=f"write('{tmp_path}/ran', '')")
    planner.redis.hset(spec["lease_key"], mapping={"attempt": "1", "lease": spec["lease"]} | held)  # type: ignore[arg-type]
    planner.redis.xadd(STREAM, {"data": codec.dumps(spec)})
    planner.send("look", mode="read_only")
    start()
    planner.outcome("look")

    assert [outcome.step_id for outcome in planner.outcomes()] == ["look"]
    assert not (tmp_path / "ran").exists()
    wait_until(lambda: planner.pending() == 0, what=f"{why} entry acknowledged")


@pytest.mark.parametrize("order", [{"action": "cancel"}, {"lease": "another"}, {"controller": "another"}])
def test_an_attempt_that_is_taken_back_stops_its_agent_and_publishes_nothing(
    planner: Planner, repo: Repo, start: Callable[..., None], tmp_path: Path, order: dict[str, str]
) -> None:
    waits = f"{FIX}; write('{tmp_path}/pid', str(os.getpid())); time.sleep(99)"
    spec = planner.send("fix", intent=waits, allowed_files=["calc.py"])
    start()
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))

    planner.redis.hset(spec["lease_key"], mapping=order)  # type: ignore[arg-type]
    planner.send("look", mode="read_only", intent="report(output=open('calc.py').read())")

    assert planner.outcome("look").output == FILES["calc.py"]
    assert [outcome.step_id for outcome in planner.outcomes()] == ["look"]
    assert not is_alive(pid)
    assert repo.landed() == []


CLAUDE = """
import json, sys, time
sys.stdin.read()
for number in range(5):
    print(json.dumps({"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Read"}]}}), flush=True)
time.sleep(99)
"""


def test_an_agent_is_stopped_at_its_limit_of_tool_calls_and_the_outcome_reports_them(
    planner: Planner, repo: Repo, start: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "claude.py").write_text(CLAUDE)
    (tmp_path / "mine.toml").write_text(
        f'extends = "claude"\nargv = ["{sys.executable}", "-IS", "{tmp_path}/claude.py"]\n'
    )
    spec = planner.spec("fix")
    planner.redis.hset(spec["lease_key"], "calls", 5)
    planner.send("fix", intent="Fix it", allowed_files=["calc.py"])

    start(agent=named_agent(str(tmp_path / "mine.toml")))

    outcome = planner.outcome("fix")
    assert (evidence(outcome).category, outcome.metrics and outcome.metrics.tool_calls) == ("UNKNOWN", 5)
    assert outcome.error_message == "the agent was stopped after 5 tool calls: the limit is twice the task's budget"
    assert repo.landed() == []


def test_a_lease_lost_during_the_verification_lands_nothing(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    spec = planner.spec("fix")
    steal = "import redis; redis.Redis.from_url('{}').hset('{}', 'lease', 'another')"
    kwargs = planner.redis.connection_pool.connection_kwargs
    argv = ["python", "-c", steal.format(f"redis://{kwargs['host']}:{kwargs['port']}/0", spec["lease_key"])]
    tool = {"tool": "python", "argv": [sys.executable, *argv[1:]], "timeout_s": 60}
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], verify_tools=[tool])
    planner.send("look", mode="read_only")
    start(heartbeat_s=60)
    planner.outcome("look")

    assert [outcome.step_id for outcome in planner.outcomes()] == ["look"]
    assert repo.landed() == []


def test_a_paused_plan_waits_until_it_is_resumed(planner: Planner, start: Callable[..., None]) -> None:
    spec = planner.spec("fix", mode="read_only")
    planner.redis.hset(spec["lease_key"], "action", "pause")
    planner.send("fix", mode="read_only")
    planner.send("look", mode="read_only")
    start()
    planner.outcome("look")  # a step of another plan does not wait with it
    assert [outcome.step_id for outcome in planner.outcomes()] == ["look"]
    assert not planner.redis.hexists(spec["lease_key"], "claimed")

    planner.redis.hset(spec["lease_key"], "action", "continue")

    assert planner.outcome("fix").success


@pytest.mark.outages
def test_without_a_heartbeat_function_the_work_goes_on_until_the_deadline(
    planner: Planner, start: Callable[..., None]
) -> None:
    planner.redis.function_flush()
    planner.send("ready", mode="read_only")
    start()
    planner.outcome("ready")
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    planner.send("over", mode="read_only", deadline=past)
    planner.send("slow", mode="read_only", deadline=soon, intent="time.sleep(99)")
    planner.send("fine", mode="read_only")

    assert planner.outcome("fine").success
    assert "stopped after" in (planner.outcome("slow").error_message or "")
    assert [outcome.step_id for outcome in planner.outcomes()] == ["ready", "slow", "fine"]


def test_a_controller_waits_for_a_stream_that_does_not_exist_yet(redis: Redis, start: Callable[..., None]) -> None:
    planner = Planner(redis)
    start()
    wait_until(lambda: len(redis.client_list()) > 1, what="connected")

    planner.listen()
    planner.send("late", mode="read_only")

    assert planner.outcome("late").success


def test_one_controller_serves_several_queues_and_partitions(planner: Planner, start: Callable[..., None]) -> None:
    for name, stream in {"a": "planner:{1}:steps:default", "b": "planner:{0}:steps:gpu"}.items():
        planner.listen(stream)
        planner.send(name, stream, mode="read_only")
    planner.send("c", mode="read_only")
    start(queues=("default", "gpu"), partitions=2)

    assert [planner.outcome(name).success for name in "abc"] == [True] * 3


@pytest.mark.parametrize("fields", [{"data": "{"}, {"data": '{"step_id": "x"}'}, {"note": "no data"}])
def test_an_entry_that_is_no_spec_is_passed_over(
    planner: Planner, start: Callable[..., None], fields: dict[str, str]
) -> None:
    planner.redis.xadd(STREAM, fields)  # type: ignore[arg-type]
    planner.send("look", mode="read_only")
    start()

    assert planner.outcome("look").success
    wait_until(lambda: planner.pending() == 0, what="both acknowledged")


def test_a_plan_begins_at_its_base_commit(planner: Planner, repo: Repo, start: Callable[..., None]) -> None:
    base = repo.git("rev-parse", "main")
    (repo.path / "calc.py").write_text("newer\n")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "Newer")
    intent = "report(output=open('calc.py').read())"
    planner.send("look", mode="read_only", context={"base_sha": base[:8]}, intent=intent)
    start()

    assert planner.outcome("look").output == FILES["calc.py"]


def test_one_step_is_enough_where_that_is_asked(planner: Planner, config: Callable[..., ControllerConfig]) -> None:
    planner.send("one", mode="read_only")
    planner.send("two", mode="read_only")

    assert run(config(once=True)) == 0

    assert [outcome.step_id for outcome in planner.outcomes()] == ["one"]
    assert planner.redis.xinfo_consumers(STREAM, "controllers") == []


def test_a_directory_without_a_repository_is_refused(
    config: Callable[..., ControllerConfig], tmp_path: Path, redis: Redis
) -> None:
    assert run(config(workdir=tmp_path / "trees")) == 1


class Flaky:
    """A connection to the server that is cut once: after `command` got through, before its answer comes back."""

    def __init__(self, command: bytes, host: str, port: int) -> None:
        self.command, self.target, self.cut = command, (host, port), False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}/0"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
                threading.Thread(target=self._relay, args=(near, far), daemon=True).start()

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:  # closed when both directions have ended, or one would read from a number that is used again
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.command in data and not self.cut:
                    self.cut = True
                    source.shutdown(socket.SHUT_RDWR)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def flaky(redis: Redis, command: bytes) -> Iterator[Flaky]:
    kwargs = redis.connection_pool.connection_kwargs
    proxy = Flaky(command, kwargs["host"], kwargs["port"])
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    yield proxy
    proxy.listener.shutdown(socket.SHUT_RDWR)
    proxy.listener.close()
    thread.join(5)


def test_after_a_lost_connection_the_same_outcome_is_sent_again(
    planner: Planner, config: Callable[..., ControllerConfig]
) -> None:
    planner.send("fix", intent=FIX, allowed_files=["calc.py"])

    with flaky(planner.redis, b"XADD\r\n$20\r\nplanner:{0}:outcomes") as proxy:
        assert run(config(redis_url=proxy.url, once=True)) == 0

    [(_, first), (_, second)] = planner.entries()
    assert first == second
    assert first[b"lease"] == b"lease-of-fix"
    assert planner.pending() == 0


@pytest.mark.parametrize("command", [b"XREADGROUP", b"FCALL"])
def test_a_lost_answer_loses_no_step(
    planner: Planner, config: Callable[..., ControllerConfig], monkeypatch: pytest.MonkeyPatch, command: bytes
) -> None:
    monkeypatch.setattr(loop, "AWAY_PAUSE_S", 0.05)
    planner.send("look", mode="read_only")

    with flaky(planner.redis, command) as proxy:
        assert run(config(redis_url=proxy.url, once=True)) == 0

    assert proxy.cut
    assert [outcome.step_id for outcome in planner.outcomes()] == ["look"]


def test_a_lost_acknowledgement_is_made_up_for_and_nothing_is_done_twice(
    planner: Planner, start: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "AWAY_PAUSE_S", 0.05)
    planner.send("one", mode="read_only")
    planner.send("two", mode="read_only")

    with flaky(planner.redis, b"XACK") as proxy:
        start(redis_url=proxy.url)
        planner.outcome("two")
        wait_until(lambda: planner.pending() == 0, what="both acknowledged")

    assert [outcome.step_id for outcome in planner.outcomes()] == ["one", "two"]


CONTROLLER = """
import sys
from pathlib import Path
from worker.agents.agent import command_agent
from worker.controller import ControllerConfig, run
from worker.sandbox import sandbox
from worker.sandbox.paths import PathGrant
sandbox.find_bubblewrap = lambda *_: None
url, workdir, command, place = sys.argv[1:]
paths = (PathGrant(Path(place), writable=True),)
agent = command_agent(command)
raise SystemExit(run(ControllerConfig(redis_url=url, workdir=Path(workdir), agent=agent, agent_paths=paths)))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_and_leaves_the_attempt_to_its_lease(
    planner: Planner, repo: Repo, config: Callable[..., ControllerConfig], tmp_path: Path, number: signal.Signals
) -> None:
    made = config()
    planner.send("fix", intent=f"{FIX}; write('{tmp_path}/pid', str(os.getpid())); time.sleep(99)")
    assert made.agent
    command = shlex.join(made.agent.argv)
    argv = [sys.executable, "-c", CONTROLLER, made.redis_url, str(repo.path), command, str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path / "trees")}) as process:
        try:
            pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
            process.send_signal(number)
            assert process.wait(60) == 0
        finally:
            process.kill()

    assert not is_alive(pid)
    assert planner.outcomes() == []
    assert planner.pending() == 1
    assert repo.landed() == []
    assert not list((tmp_path / "trees").iterdir())


def test_the_controller_is_a_client_of_the_wire_and_of_nothing_else_of_ours() -> None:
    ours = {
        name
        for path in (ROOT / "worker/controller").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in imported(node)
        if name.split(".")[0] in {"schemas", "tasks", "worker"}
    }

    assert {name for name in ours if not name.startswith(("schemas", "worker.controller"))} <= {
        "tasks.rules.risk",  # how risky a file is
        "tasks.text.blocked_report",  # of an agent that cannot go on
        "tasks.text.fields",  # how a text is kept short
        "tasks.text.folders",
        "tasks.text.forbidden_paths",
        "tasks.text.paths",  # which no pattern means
        "tasks.text.patterns",  # what a step may change
        "tasks.text.secrets",  # which no log holds
        "tasks.toolchain.catalogue",
        "tasks.toolchain.classify",
        "tasks.toolchain.collecting",  # which imports fail
        "tasks.toolchain.contract",  # which tools run tests
        "tasks.toolchain.could_not_run",  # a verification
        "tasks.toolchain.files",  # which say what a verification runs
        "tasks.toolchain.instructions",  # of the repository for agents
        "tasks.toolchain.integrity.change",  # what a change does to tests and checks
        "tasks.toolchain.integrity.changed_tests",
        "tasks.toolchain.integrity.compared",
        "tasks.toolchain.integrity.finding",
        "tasks.toolchain.mutants",  # mistakes that tests are to notice
        "tasks.toolchain.proof",  # what a report of tests proves
        "tasks.toolchain.test_ids",
        "worker.agents.agent",
        "worker.agents.readers",
        "worker.client.http_link",  # by which a planner is asked, over HTTP or by Redis
        "worker.client.http_steps",
        "worker.client.redis_steps",
        "worker.client.steps",
        "worker.client.trouble",
        "worker.settings.settings",  # which name a gateway
        "worker.host.code_version",
        "worker.host.git",
        "worker.host.github_app",
        "worker.host.regular_files",
        "worker.host.remote_names",  # under which a repository is known
        "worker.host.stop_signals",
        "worker.sandbox.paths",
        "worker.sandbox.process",
        "worker.sandbox.sandbox",
        "worker.sandbox.user",  # whose the clone has to be
        "worker.settings.credentials",  # which variables are named like secrets
        "worker.telemetry",
        "worker.telemetry.tracing",  # which attempt belongs to which trace
    }


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_a_verification_at_the_base_is_of_that_commit_and_names_all_that_fails(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    base = repo.git("rev-parse", "main")
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], verify_tools=[PYTEST])
    context = {"base_sha": base, "at": "base"}
    planner.send("before", mode="test", context=context, verify_tools=[{**PYTEST, "pass_codes": [0, 1]}])
    planner.send("after", mode="test", context={"base_sha": base}, verify_tools=[PYTEST])
    start()

    before, after = planner.outcome("before"), planner.outcome("after")

    assert planner.outcome("fix").success
    assert (before.success, before.verified_at, before.failing_tests) == (True, base, ("test_calc.py::test_adds",))
    assert before.failing_tests_complete
    assert before.verify
    assert [receipt.exit_code for receipt in before.verify] == [1]
    assert (after.success, after.verified_at, after.failing_tests) == (True, None, ())
    assert repo.landed() == ["calc.py"]


def of_step(step_id: str, attempt: int) -> str:
    about = f"Do {step_id}: step {step_id} of the plan {PLAN}, attempt {attempt}."
    return f"Do {step_id}\n\n{about}\n\nPlan: {PLAN}\nStep: {step_id}\nAttempt: {attempt}"


def history(repo: Repo) -> list[str]:
    return [
        text.strip() for text in repo.git("log", "-z", "--format=%B", f"main..{BRANCH}").split("\0") if text.strip()
    ]


def test_a_change_that_landed_before_its_attempt_died_is_verified_and_reported(
    planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    repo.git("branch", BRANCH)
    fixed = FILES["calc.py"].replace("-", "+")
    repo.commit_on(BRANCH, "calc.py", fixed, of_step("fix", 1))
    repo.commit_on(BRANCH, "words.py", "# of a sibling\n", of_step("words", 1))
    no_agent = "raise SystemExit('asked')"
    planner.send("fix", intent=no_agent, allowed_files=["calc.py"], verify_tools=[PYTEST], attempt=2)
    start()

    outcome = planner.outcome("fix")

    assert outcome.success
    assert outcome.verify
    assert (outcome.touched_files, outcome.created_files, outcome.growth_kb) == (("calc.py",), (), 0)
    assert outcome.diff_hash
    assert (outcome.metrics and outcome.metrics.tokens_used) == 0
    assert history(repo) == [of_step("words", 1), of_step("fix", 1)]


@pytest.mark.parametrize(
    "landed",
    [
        pytest.param([("calc.py", "def add(a, b):\n    return 0\n")], id="red"),
        pytest.param([("words.py", "NOT_ALLOWED = 1\n")], id="not allowed"),
        pytest.param([("calc.py", "1\n"), ("calc.py", FILES["calc.py"].replace("-", "+"))], id="several"),
    ],
)
def test_what_an_earlier_attempt_left_that_does_not_hold_is_taken_off_first(
    landed: list[tuple[str, str]], planner: Planner, repo: Repo, start: Callable[..., None]
) -> None:
    repo.git("branch", BRANCH)
    for attempt, (path, text) in enumerate(landed, 1):
        repo.commit_on(BRANCH, path, text, of_step("fix", attempt))
    repo.commit_on(BRANCH, "notes.md", "of a sibling\n", of_step("notes", 1))
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], verify_tools=[PYTEST], attempt=3)
    start()

    assert planner.outcome("fix").success

    assert history(repo) == [of_step("fix", 3), of_step("notes", 1)]
    assert repo.landed() == ["calc.py", "notes.md"]
    assert repo.git("show", f"{BRANCH}:words.py") == FILES["words.py"].strip()


def test_an_agent_may_say_why_nothing_has_to_be_changed(planner: Planner, start: Callable[..., None]) -> None:
    planner.send("fix", intent="report(nothing_to_change='It is right.', tokens_used=7)", allowed_files=["calc.py"])
    says_both = f"{FIX}; report(nothing_to_change='It is right.')"
    planner.send("both", intent=says_both, allowed_files=["calc.py"], verify_tools=[PYTEST])
    start()

    fix, both = planner.outcome("fix"), planner.outcome("both")

    assert (fix.success, fix.touched_files, fix.nothing_to_change) == (True, (), "It is right.")
    assert (both.success, both.touched_files, both.nothing_to_change) == (True, ("calc.py",), None)
