"""What passed is judged once more: by the tests of the base, and by tests that no agent ever has."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.outcome import Judged, Outcome
from tests.support.controlling import FIX, PYTEST, Planner, Repo
from worker.controller import ControllerConfig
from worker.controller.holdout import digest_of
from worker.controller.places import Places
from worker.sandbox.sandbox import Sandbox, SandboxMode

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
HELPER = "tests/expected.py"
SUITE = {**PYTEST, "argv": ["pytest", "-q", "--disable-plugin-autoload"]}
TEST = "from calc import add\nfrom tests.expected import SUM\n\n\ndef test_sums():\n    assert add(2, 2) == SUM\n"
WEAK = f"write({HELPER!r}, 'SUM = 0\\n')"
TELLS = """import pathlib
for each in pathlib.Path("tests").glob("*.py"):
    pathlib.Path(".git/refs/heads").mkdir(parents=True, exist_ok=True)
    pathlib.Path(".git/refs/heads", each.stem).write_text("x")
def add(a, b):
    return 4
"""


@pytest.fixture
def base(repo: Repo) -> str:
    """Begin at a commit whose tests take what they expect from a file beside them."""
    repo.git("rm", "--quiet", "test_calc.py")
    (repo.path / "tests").mkdir()
    for name, text in {HELPER: "SUM = 4\n", "tests/test_sum.py": TEST, "tests/__init__.py": ""}.items():
        (repo.path / name).write_text(text)
    repo.git("add", ".")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Expect")
    return repo.git("rev-parse", "HEAD")


def judged(planner: Planner, at: str, intent: str, files: list[str], suite: Any = SUITE, **by: Any) -> Outcome:
    """Have an agent do what `intent` says, and judge it by a last step."""
    context = {"base_sha": at}
    planner.send("fix", intent=intent, allowed_files=files, context=context, verify_tools=[suite])
    assert planner.outcome("fix").success
    judged_by = {"base": True, **by}
    planner.send("last", mode="test", context=context, verify_tools=[suite], judged_by=judged_by)
    return planner.outcome("last")


def test_what_the_tests_of_the_base_refuse_is_told_with_the_difference(
    planner: Planner, repo: Repo, base: str, start: Start
) -> None:
    start()

    done = judged(planner, base, WEAK, [HELPER])

    assert (done.success, done.tests_passed) == (True, True)
    assert done.judged
    assert done.judged.base == "diverges"
    found = done.integrity
    assert found
    assert found.counts == {"tests_diverge": 2}
    assert [(each.kind, each.path, each.what) for each in found.places] == [
        ("tests_diverge", "tests/test_sum.py", "fails: tests/test_sum.py::test_sums"),
        ("tests_diverge", HELPER, "-SUM = 4 +SUM = 0"),
    ]


def test_what_the_goal_names_is_the_plans_and_new_tests_judge_nothing(
    planner: Planner, repo: Repo, base: str, start: Start
) -> None:
    start()
    more = "write('tests/test_more.py', 'def test_more():\\n    pass\\n')"

    done = judged(planner, base, f"{WEAK}; {more}", [HELPER, "tests/test_more.py"], own=[HELPER])

    assert (done.success, done.integrity) == (True, None)


def test_tests_that_are_held_out_judge_a_clone_that_no_agent_has(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "held/first/tests").mkdir(parents=True)
    hidden = "from calc import add\n\n\ndef test_hidden_name():\n    assert add(3, 4) == 7\n"
    (tmp_path / "held/first/tests/test_unseen.py").write_text(hidden)
    with tarfile.open(tmp_path / "held/second.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "held/first/tests/test_unseen.py", "tests/test_other.py")
    first, second = (digest_of(tmp_path / "held" / name) for name in ("first", "second.tar.gz"))
    start(holdout=tmp_path / "held")

    refused = judged(planner, base, f"write('calc.py', {TELLS!r})", ["calc.py"], holdout=first)
    planner.send("look", intent="report(output=sorted(os.listdir('tests')))", mode="read_only")
    seen = planner.outcome("look").output
    planner.send("mend", intent=FIX, allowed_files=["calc.py"], context={"base_sha": base}, verify_tools=[SUITE])
    planner.send("again", mode="test", context={"base_sha": base}, verify_tools=[SUITE], judged_by={"holdout": second})

    assert (refused.success, refused.tests_passed) == (False, False)
    assert refused.failure_evidence
    assert refused.failure_evidence.category == "TEST_REGRESSION"
    assert "held-out tests fail" in (refused.error_message or "")
    assert not {"unseen", "hidden_name"} & {
        word for word in ("unseen", "hidden_name") if word in refused.model_dump_json()
    }
    assert seen == ["__init__.py", "expected.py", "test_sum.py"]
    assert planner.outcome("again").success
    assert planner.outcome("again").judged == Judged(holdout=second)


@pytest.mark.long
@pytest.mark.parametrize(("expected", "category"), [(7, None), (8, "TEST_REGRESSION")])
def test_a_verification_of_one_file_is_judged_and_a_case_that_the_base_skips_is_no_matter(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path, expected: int, category: str | None
) -> None:
    (tmp_path / "held/first/tests").mkdir(parents=True)
    cases = f"[(3, {expected}), pytest.param(9, 0, marks=pytest.mark.skip)]"
    hidden = (
        f"import pytest\nfrom calc import add\n\n\n@pytest.mark.parametrize(('one', 'sum_'), {cases})\n"
        "def test_hidden(one, sum_):\n    assert add(one, 4) == sum_\n"
    )
    (tmp_path / "held/first/tests/test_unseen.py").write_text(hidden)
    start(holdout=tmp_path / "held")
    one_file = {**SUITE, "argv": ["pytest", "-q", "tests/test_sum.py"]}

    done = judged(planner, base, FIX, ["calc.py"], one_file, holdout=digest_of(tmp_path / "held/first"))

    assert (done.failure_evidence.category if done.failure_evidence else None) == category


def test_helpers_that_the_change_makes_lie_do_not_help_against_held_out_tests(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "held/first/tests").mkdir(parents=True)
    (tmp_path / "held/first/tests/test_unseen.py").write_text(TEST)
    start(holdout=tmp_path / "held")

    done = judged(planner, base, WEAK, [HELPER], base=False, holdout=digest_of(tmp_path / "held/first"))

    assert not done.success
    assert done.failure_evidence
    assert done.failure_evidence.category == "TEST_REGRESSION"


def test_held_out_tests_that_the_change_keeps_from_running_are_no_pass(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "held/first/tests").mkdir(parents=True)
    (tmp_path / "held/first/tests/test_unseen.py").write_text("def test_it():\n    assert False\n")
    start(holdout=tmp_path / "held")
    hides = f"{FIX}; write('conftest.py', 'collect_ignore_glob = [\"*unseen*\"]\\n')"

    own, digest = ["conftest.py"], digest_of(tmp_path / "held/first")
    done = judged(planner, base, hides, ["calc.py", *own], own=own, holdout=digest)

    assert not done.success
    assert done.failure_evidence
    assert done.failure_evidence.category == "NO_PROOF"
    assert "no report shows that all held-out tests ran" in (done.error_message or "")


def test_a_base_without_tests_does_not_diverge(planner: Planner, repo: Repo, start: Start) -> None:
    repo.git("rm", "--quiet", "test_calc.py")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "No tests")
    start()
    first = "write('test_calc.py', 'def test_it():\\n    pass\\n')"

    done = judged(planner, repo.git("rev-parse", "HEAD"), first, ["test_calc.py"])

    assert (done.success, done.integrity) == (True, None)


def test_a_base_that_is_not_here_hands_the_step_back_before_anybody_works(
    planner: Planner, repo: Repo, base: str, start: Start
) -> None:
    start()
    judged(planner, base, FIX, ["calc.py"])

    planner.send("more", mode="test", context={"base_sha": "f" * 40}, verify_tools=[SUITE], judged_by={"base": True})

    released = planner.outcome("more").released
    assert released
    assert "f" * 40 in released.reason


def test_mutants_are_tried_where_no_held_out_tests_are(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path
) -> None:
    """The tests that agents see pass whatever is changed, and those that are held out do not."""
    (tmp_path / "held/first/tests").mkdir(parents=True)
    strict = "from calc import add\n\n\ndef test_it():\n    assert add(3, 4) == 7\n"
    (tmp_path / "held/first/tests/test_it.py").write_text(strict)
    start(holdout=tmp_path / "held", mutants=1)
    lax = "write('tests/test_it.py', 'def test_it():\\n    pass\\n')"
    aimed = {**SUITE, "argv": ["pytest", "-q", "--disable-plugin-autoload", "tests/test_it.py"]}

    planner.send(
        "fix",
        intent=f"{FIX}; {lax}",
        allowed_files=["calc.py", "tests/test_it.py"],
        context={"base_sha": base, "failing_tests": ["tests/test_it.py::test_it"]},
        verify_tools=[aimed],
        judged_by={"holdout": digest_of(tmp_path / "held/first")},
    )

    done = planner.outcome("fix")
    assert done.success
    assert done.integrity
    assert done.integrity.counts["mutant_survives"] == 1


def test_tests_that_are_not_here_hand_the_step_back(
    planner: Planner, repo: Repo, base: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "held").mkdir()
    shutil.copyfile(repo.path / HELPER, tmp_path / "held/other")
    start(holdout=tmp_path / "held")

    planner.send("last", mode="test", verify_tools=[SUITE], judged_by={"holdout": f"sha256:{'0' * 64}"})

    released = planner.outcome("last").released
    assert released
    assert "no tests sha256:000" in released.reason


@pytest.mark.parametrize("sandbox", [SandboxMode.OFF, SandboxMode.AUTO])
def test_held_out_tests_that_agents_can_reach_are_warned_of(
    planner: Planner, repo: Repo, tmp_path: Path, caplog: pytest.LogCaptureFixture, sandbox: SandboxMode
) -> None:
    (tmp_path / "held").mkdir()
    config = ControllerConfig(workdir=repo.path, worktrees=tmp_path, holdout=tmp_path / "held", sandbox=sandbox)

    with Places.opened(config):
        pass

    warned = "holdout_in_reach" in [each.message for each in caplog.records]
    assert warned == (not Sandbox(sandbox).confines)
