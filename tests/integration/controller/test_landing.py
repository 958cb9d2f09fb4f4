"""What a plan has verified lands on top of what its target branch is by then, without a lost line of others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import running_worker, wait_until
from tests.support.controlling import PLAN, PYTEST, Lease, Planner, Repo, bare
from tests.support.scripted import ENDED
from worker.controller.changes import diff_hash
from worker.controller.delivery import Delivery
from worker.controller.landing import Landing
from worker.controller.lease import LeaseClient
from worker.controller.remote import Remote
from worker.controller.repositories_file import RepositoriesFile
from worker.controller.result import Result
from worker.controller.shared import SharedRepository
from worker.controller.wire import Spec
from worker.host.git import Git
from worker.sandbox.process import Abandoned
from worker.store import queries

REF, ACCEPTED = f"refs/planner/{PLAN}", f"refs/planner/accepted/{PLAN}"
LINES = [f"line {number}\n" for number in range(20)]
MESSAGE = "Do it\n\nPlan: {plan}\nStep: {step}\nAttempt: 1"
STEP: dict[str, Any] = {"controller_task_spec": {"type": "LAND"}, "mode": "test"}

Land = Callable[..., Result]


@pytest.fixture
def remote(repo: Repo) -> Repo:
    """A remote whose file of lines the plan has changed in two places, by one step each."""
    found = bare(repo, "shop.git")
    found.commit_on("main", "lines.txt", "".join(LINES))
    found.git("branch", "work", "main")
    for step, at in (("first", 2), ("second", 17)):
        text = found.git("show", "work:lines.txt").splitlines(keepends=True)
        text[at] = f"{step} was here\n"
        found.commit_on("work", "lines.txt", "".join([*text[:-1], "line 19\n"]), MESSAGE.format(plan=PLAN, step=step))
    found.git("update-ref", REF, "work")
    return found


def accepted(remote: Repo, *steps: str) -> list[dict[str, Any]]:
    """The commits of the plan's ref, as the plan has accepted them."""
    ids = remote.git("rev-list", "--reverse", f"main..{REF}").splitlines()
    git = Git(remote.path)
    return [
        {"step_id": step, "attempt": 1, "diff_hash": diff_hash(git, f"{commit}^", commit)}
        for step, commit in zip(steps or ("first", "second"), ids, strict=True)
    ]


@pytest.fixture
def land(planner: Planner, remote: Repo, tmp_path: Path) -> Land:
    """Land once, with a verification that passes unless a test has another one."""
    given, base = accepted(remote), remote.git("rev-parse", "main")
    table = f'[repositories."acme/shop"]\nurl = "{remote.path}"\n[repositories."acme/shop".delivery]\npush = true\n'
    (tmp_path / "repos.toml").write_text(table)
    settings = RepositoriesFile.read(tmp_path / "repos.toml").repositories["acme/shop"]

    def run(verify: Callable[[], Result] = Result, lease: Lease | None = None, **changes: Any) -> Result:
        clone = SharedRepository(tmp_path / "clones/shop.git", Remote(settings.url))
        context = {"repo": "acme/shop", "base_sha": base, **changes.pop("context", {})}
        fields = STEP | {"input": {"accepted": given}, **changes, "context": context}
        spec = Spec.model_validate(planner.spec("land", **fields))
        return Landing(spec, clone, settings, cast("LeaseClient", lease or Lease()), verify).run()

    return run


def told(result: Result) -> dict[str, Any]:
    assert result.failure is None
    assert result.landed
    return result.landed


def lines(remote: Repo, name: str) -> list[str]:
    return remote.git("show", f"{name}:lines.txt").splitlines()


def move(remote: Repo, at: int, text: str) -> str:
    """Have somebody change a line of the target."""
    there = remote.git("show", "main:lines.txt").splitlines()
    there[at] = text
    return remote.commit_on("main", "lines.txt", "\n".join(there) + "\n", "Theirs")


def test_a_target_that_has_not_moved_changes_nothing(land: Land, remote: Repo) -> None:
    def never() -> Result:
        raise AssertionError

    found = told(land(never))

    assert found["target_sha"] == remote.git("rev-parse", "main")
    assert found["result_sha"] == remote.git("rev-parse", REF)
    assert (found["conflicts"], found["target"]) == ([], "main")


def test_the_accepted_commits_come_on_top_of_a_target_that_has_moved(land: Land, remote: Repo) -> None:
    before, target = remote.git("rev-parse", REF), move(remote, 9, "theirs")

    found = told(land())

    assert (found["target_sha"], found["conflicts"]) == (target, [])
    assert remote.git("rev-parse", REF) == found["result_sha"]
    assert remote.git("rev-parse", ACCEPTED) == before
    assert remote.git("rev-list", "--reverse", f"main..{REF}").splitlines()[-1] == found["result_sha"]
    assert found["commits"] == accepted(remote)  # each with the digest that it has now
    assert [lines(remote, REF)[at] for at in (2, 9, 17)] == ["first was here", "theirs", "second was here"]
    assert found["between"][0].endswith(" Theirs")


def test_an_attempt_that_died_after_it_moved_the_ref_is_done_again(land: Land, remote: Repo) -> None:
    move(remote, 9, "theirs")
    told(land())
    last = move(remote, 11, "theirs, too")

    again = told(land())

    assert again["target_sha"] == last
    assert [lines(remote, REF)[at] for at in (2, 9, 11, 17)] == [
        *("first was here", "theirs", "theirs, too", "second was here"),
    ]


def test_a_file_in_conflict_is_left_as_the_target_has_it(land: Land, remote: Repo) -> None:
    move(remote, 2, "theirs")

    def never() -> Result:
        raise AssertionError

    found = told(land(never))

    assert found["conflicts"] == ["lines.txt"]
    assert lines(remote, REF) == lines(remote, "main")
    assert found["commits"] == []
    (sides,) = found["sides"]
    assert "+first was here" in sides["ours"]
    assert "+theirs" in sides["theirs"]


def test_a_change_that_the_target_has_already_leaves_nothing_to_deliver(land: Land, remote: Repo) -> None:
    remote.git("update-ref", "refs/heads/main", remote.git("commit-tree", f"{REF}^{{tree}}", "-p", "main", "-m", "x"))

    found = told(land())

    assert found["result_sha"] == found["target_sha"] == remote.git("rev-parse", "main")


def test_who_has_lost_the_attempt_moves_nothing(land: Land, remote: Repo) -> None:
    lease, before = Lease(), remote.git("rev-parse", REF)
    lease.held = False
    move(remote, 9, "theirs")

    with pytest.raises(Abandoned):
        land(lease=lease)

    assert remote.git("rev-parse", REF) == before


# While it works, main gets to where `aside` is; the step that brings the plan up to date is shown that.
AGENT_BESIDE_OTHERS = """
import json, pathlib, subprocess, sys
spec = json.load(sys.stdin)
name, files = spec["step_id"], {files}
if name.startswith("bring-up-to-date"):
    assert "plus" in "".join(spec["context"]["documents"].values()), spec["context"]
    name = "bring-up-to-date"
else:
    subprocess.run(["git", "--git-dir", {remote!r}, "update-ref", "refs/heads/main", "refs/aside"], check=True)
for path, text in files[name].items():
    pathlib.Path(path).write_text(text)
"""


@pytest.fixture
def life(
    redis_url: str, redis: Redis, start: Callable[..., None], remote: Repo, tmp_path: Path
) -> Iterator[Callable[..., PlanView]]:
    """Submit a goal to a real worker, with a controller that patches and delivers; returns how the plan ended."""
    table = f'[repositories."acme/shop"]\nurl = "{remote.path}"\n[repositories."acme/shop".delivery]\npush = true\n'
    (tmp_path / "repos.toml").write_text(table)

    def run(files: dict[str, dict[str, str]], **goal: Any) -> PlanView:
        agent = AGENT_BESIDE_OTHERS.replace("{files}", repr(files)).replace("{remote!r}", repr(str(remote.path)))
        (tmp_path / "lander.py").write_text(agent)
        command = f"{sys.executable} -IS {tmp_path / 'lander.py'}"
        start(command=command, repositories=RepositoriesFile.read(tmp_path / "repos.toml"))
        context = {"repo": "acme/shop", "base_sha": remote.git("rev-parse", "main"), "language": "python"}
        body = {"goal_id": "g-1", "context": context, "delivery": {"push": True}, **goal}
        redis.xadd("planner:goals", {"data": codec.dumps(body)})
        return ended(redis)

    with running_worker(redis_url, tmp_path / "worker.log", "solo"):
        yield run


def ended(redis: Redis) -> PlanView:
    def over() -> PlanView | None:
        known = queries.goal(redis, "g-1", "default")
        view = queries.plan(redis, 1, known.plan_id) if known and known.plan_id else None
        return view if view and view.state in ENDED else None

    found = wait_until(over, timeout=120, what="the end of the plan")
    assert found
    return found


def test_the_failing_tests_run_at_the_tip_of_the_target_too_once_that_has_moved(
    planner: Planner, start: Callable[..., None], remote: Repo, tmp_path: Path
) -> None:
    (tmp_path / "repos.toml").write_text(f'[repositories."acme/shop"]\nurl = "{remote.path}"\n')
    base = remote.git("rev-parse", "main")
    fixed = remote.commit_on("main", "calc.py", "def add(a, b):\n    return a + b\n")
    context = {"repo": "acme/shop", "base_sha": base, "at": "base", "then_at": "target"}
    tool = {**PYTEST, "pass_codes": [0, 1]}
    planner.send("reproduce", mode="test", verify_tools=[tool], context=context)

    start(repositories=RepositoriesFile.read(tmp_path / "repos.toml"))

    found = planner.outcome("reproduce")
    assert found.verify
    assert found.at_target
    assert (found.verified_at, found.verify[0].exit_code) == (base, 1)
    assert (found.at_target.target_sha, found.at_target.verify[0].exit_code) == (fixed, 0)


def double(name: str) -> str:
    return f"from calc import {name}\n\n\ndef double(a):\n    return {name}(a, a)\n"


@pytest.mark.outages
def test_a_function_that_others_renamed_meanwhile_is_found_on_top_of_the_target_and_mended(
    life: Callable[..., PlanView], remote: Repo, tmp_path: Path
) -> None:
    remote.commit_on("main", "calc.py", "def add(a, b):\n    return a + b\n")
    remote.git("branch", "aside", "main")
    remote.commit_on("aside", "calc.py", "def plus(a, b):\n    return a + b\n", "Rename add")
    remote.commit_on(
        "aside", "test_calc.py", "from calc import plus\n\n\ndef test_adds():\n    assert plus(2, 2) == 4\n"
    )
    remote.git("update-ref", "refs/aside", "aside")
    remote.git("branch", "-D", "aside")
    tests = "from double import double\n\n\ndef test_doubles():\n    assert double(2) == 4\n"
    wrote = {"double.py": double("add"), "test_double.py": tests}
    step = {
        "step_id": "double",
        "title": "Double",
        "intent": "Add it",
        "allowed_files": [*wrote],
        "verify": "pytest -q",
    }

    view = life(
        {"double": wrote, "bring-up-to-date": {"double.py": double("plus")}},
        goal="Add double",
        allowed_files=[*wrote],
        steps=[step],
    )

    states = {each.step_id: each.state for each in view.steps}
    assert view.state == "COMPLETED", (view.halt, states)
    assert (view.undelivered, view.branch) == (None, f"planner/{view.plan_id}")
    assert states == {
        "double": "DONE", "land": "FAILED", "bring-up-to-date": "DONE", "land-2": "DONE", "deliver": "DONE"
    }  # fmt: skip
    assert sorted(remote.git("diff", "--name-only", "main", view.branch or "").splitlines()) == [*wrote]
    assert "plus(a, a)" in remote.git("show", f"{view.branch}:double.py")
    assert remote.git("merge-base", "main", view.branch or "") == remote.git("rev-parse", "main")
    tree = tmp_path / "delivered"
    subprocess.run(["git", "clone", "-q", "-b", view.branch or "", str(remote.path), str(tree)], check=True)
    assert subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=tree, check=False).returncode == 0


BEFORE = "plan_3c-0199aaaabbbbccccddddeeeeffff1111"
BRANCH = f"planner/{BEFORE}"


@pytest.fixture
def delivered(remote: Repo) -> str:
    """A branch that the plan BEFORE has delivered; returns its commit."""
    remote.git("branch", BRANCH, "main")
    text = "".join(["first was here\n" if at == 2 else line for at, line in enumerate(LINES)])
    remote.git("update-ref", "-d", REF)
    return remote.commit_on(BRANCH, "lines.txt", text, MESSAGE.format(plan=BEFORE, step="first"))


def again(head: str, **more: Any) -> dict[str, Any]:
    return {"input": {"accepted": [], "onto": BEFORE, "again": head, **more}, "context": {"base_sha": head}}


def redeliver(planner: Planner, remote: Repo, tmp_path: Path, landed: dict[str, Any], asked: dict[str, Any]) -> Result:
    settings = RepositoriesFile.read(tmp_path / "repos.toml").repositories["acme/shop"]
    clone = SharedRepository(tmp_path / "clones/shop.git", Remote(settings.url))
    result = {name: landed[name] for name in ("target_sha", "result_sha")}
    fields: dict[str, Any] = {"controller_task_spec": {"type": "DELIVER"}, "mode": "read_only"}
    fields |= {"input": {**asked["input"], "push": True, "landed": result}}
    fields["context"] = {"repo": "acme/shop", "base_sha": landed.get("begin_sha", asked["context"]["base_sha"])}
    spec = Spec.model_validate(planner.spec("deliver", **fields))
    return Delivery(spec, clone, settings, cast("LeaseClient", Lease())).run()


def test_a_delivered_branch_lands_again_on_top_of_a_target_that_moved(
    land: Land, planner: Planner, remote: Repo, tmp_path: Path, delivered: str
) -> None:
    target, asked = move(remote, 9, "theirs"), again(delivered)

    found = told(land(**asked))

    assert (found["target_sha"], found["conflicts"], found["target"]) == (target, [], "main")
    assert found["begin_sha"] == found["result_sha"]  # nothing is of the plan itself
    assert found["commits"] == []
    assert remote.git("rev-parse", BRANCH) == delivered  # not before it is verified
    result = redeliver(planner, remote, tmp_path, found, asked)
    assert result.report.output["branch"] == BRANCH
    assert [lines(remote, BRANCH)[at] for at in (2, 9)] == ["first was here", "theirs"]
    assert remote.git("log", "--format=%s", f"main..{BRANCH}") == "Do it"
    assert not remote.git("for-each-ref", ACCEPTED)


def test_a_delivered_branch_in_conflict_is_brought_up_to_date_by_the_plan_that_lands_it_again(
    land: Land, planner: Planner, remote: Repo, tmp_path: Path, delivered: str
) -> None:
    move(remote, 2, "theirs")
    found = told(land(**again(delivered)))
    assert found["conflicts"] == ["lines.txt"]
    assert "+first was here" in found["sides"][0]["ours"]

    text = remote.git("show", "main:lines.txt").replace("theirs", "theirs, and first was here") + "\n"
    remote.git("branch", "work2", REF)
    ours = remote.commit_on("work2", "lines.txt", text, MESSAGE.format(plan=PLAN, step="bring-up-to-date"))
    remote.git("update-ref", REF, ours)
    asked = again(delivered)
    digest = diff_hash(Git(remote.path), f"{ours}^", ours)
    asked["input"]["accepted"] = [{"step_id": "bring-up-to-date", "attempt": 1, "diff_hash": digest}]
    asked["context"] = {"base_sha": found["begin_sha"]}
    last = move(remote, 11, "theirs, too")
    second = told(land(**asked))

    assert (second["target_sha"], second["conflicts"]) == (last, [])
    assert [each["step_id"] for each in second["commits"]] == ["bring-up-to-date"]
    assert second["begin_sha"] == remote.git("rev-parse", f"{second['result_sha']}^")
    asked["input"]["accepted"] = second["commits"]
    result = redeliver(planner, remote, tmp_path, second, asked)
    assert result.report.output["branch"] == BRANCH
    assert [lines(remote, BRANCH)[at] for at in (2, 11)] == ["theirs, and first was here", "theirs, too"]


@pytest.mark.parametrize("when", ["before the landing", "between", "under a commit of the plan"])
def test_a_persons_commit_on_a_delivered_branch_is_never_overwritten(
    when: str, land: Land, planner: Planner, remote: Repo, tmp_path: Path, delivered: str
) -> None:
    move(remote, 9, "theirs")
    asked, theirs = again(delivered), ""
    if when == "under a commit of the plan":
        remote.commit_on(BRANCH, "by_hand.py", "1\n", "By hand")
        theirs = remote.commit_on(BRANCH, "more.py", "1\n", MESSAGE.format(plan=BEFORE, step="more"))
        asked = again(theirs)
    if when == "before the landing":
        theirs = remote.commit_on(BRANCH, "by_hand.py", "1\n", "By hand")

    result = land(**asked)

    if when == "between":
        theirs = remote.commit_on(BRANCH, "by_hand.py", "1\n", "By hand")
        result = redeliver(planner, remote, tmp_path, told(result), asked)
    assert result.failure
    assert remote.git("rev-parse", BRANCH) == theirs


@pytest.mark.parametrize("step", ["first", None])
def test_commits_of_other_plans_that_the_target_has_are_not_those_of_a_delivered_branch(
    step: str | None, land: Land, remote: Repo, delivered: str
) -> None:
    """They were merged one by one, so they name their plans; without a `step` the branch has another plan's commit."""
    other = "plan_3c-0199aaaabbbbccccddddeeeeffff2222"
    remote.git("update-ref", "-d", f"refs/heads/{BRANCH}")
    for at, text in enumerate(("1\n", "2\n")):
        remote.commit_on("main", "theirs.txt", text, MESSAGE.format(plan=other, step=f"theirs-{at}"))
    remote.git("branch", BRANCH, "main")
    begin = remote.git("rev-parse", "main")
    message = MESSAGE.format(plan=BEFORE if step else other, step=step)
    head = remote.commit_on(BRANCH, "lines.txt", remote.git("show", f"{delivered}:lines.txt") + "\n", message)
    remote.commit_on("main", "theirs.txt", "3\n", MESSAGE.format(plan=other, step="theirs-3"))

    found = told(land(**again(head)))

    assert found["conflicts"] == []
    assert remote.git("rev-list", "--count", f"main..{found['result_sha']}") == "1"
    assert [each.partition(" ")[2] for each in found["between"]] == ["Do it"]
    assert remote.git("rev-parse", f"{head}^") == begin
