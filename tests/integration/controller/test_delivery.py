"""What a plan has verified becomes a branch of the remote and a pull request; nothing else ever does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import forge_server
from tests.support.controlling import BRANCH, FIX, PLAN, PYTEST, Lease, Planner, Repo, bare
from tests.support.faults import hasty_worker
from tests.support.forge_server import TOKEN, ForgeServer
from worker.controller.changes import diff_hash
from worker.controller.delivery import Delivery
from worker.controller.forge import Forge, ForgeKind, PullRequest, Refused
from worker.controller.forge_text import disarm
from worker.controller.lease import LeaseClient
from worker.controller.readiness import CannotWork
from worker.controller.remote import Remote
from worker.controller.repositories_file import RepositoriesFile, WrongRepositories
from worker.controller.result import Result
from worker.controller.shared import SharedRepository
from worker.controller.wire import Spec
from worker.host.git import Git
from worker.sandbox.process import Abandoned

Start = Callable[..., None]
Permit = Callable[..., RepositoriesFile]
Deliver = Callable[..., Result]
REF = f"refs/planner/{PLAN}"
DELIVER = "planner:{0}:steps:deliver"
CONTEXT = {"repo": "acme/shop", "base_sha": None}
URL = "https://forge.example/acme/shop/pull/1"
STEP: dict[str, Any] = {"controller_task_spec": {"type": "DELIVER"}, "mode": "read_only", "context": CONTEXT}
PLANNER = (sys.executable, "-c", "from worker.cli.commands.app import main; main()")
ASKED = {"push": True, "pull_request": True, "title": "Fix @all of it", "text": "fixes #1"}


@pytest.fixture
def remote(repo: Repo) -> Repo:
    return bare(repo, "shop.git")


@pytest.fixture
def forge() -> Iterator[ForgeServer]:
    with forge_server.serving() as forge:
        yield forge


@pytest.fixture
def permit(remote: Repo, forge: ForgeServer, tmp_path: Path) -> Permit:
    """Write a file that permits what a test says."""
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def write(kind: str = "github", may: str = "push = true\npull_request = true", more: str = "") -> RepositoriesFile:
        (tmp_path / "repos.toml").write_text(
            f'[repositories."acme/shop"]\nurl = "{remote.path}"\n{more}\n'
            f'[repositories."acme/shop".delivery]\n{may}\nforge = "{kind}"\napi = "{forge.url}/{kind}"\n'
            'project = "acme/shop"\ntoken_file = "token"\n'
        )
        return RepositoriesFile.read(tmp_path / "repos.toml")

    return write


@pytest.fixture
def accepted(remote: Repo) -> list[dict[str, Any]]:
    """Two changes on the plan's ref, as the plan has them; the second was found by a second attempt."""
    remote.git("branch", "work", "main")
    found = []
    for step_id, path in (("fix", "calc.py"), ("words", "words.py")):
        commit = remote.commit_on("work", path, "1\n", f"Do it\n\nPlan: {PLAN}\nStep: {step_id}\nAttempt: 1")
        found.append({"step_id": step_id, "attempt": 2, "diff_hash": diff_hash(Git(remote.path), f"{commit}^", commit)})
    remote.git("update-ref", REF, "work")
    remote.git("branch", "-D", "work")
    return found


@pytest.fixture
def deliver(planner: Planner, permit: Permit, tmp_path: Path) -> Deliver:
    """Deliver once, without a fleet around."""

    def run(accepted: list[dict[str, Any]], file: RepositoriesFile | None = None, **changes: Any) -> Result:
        settings = (file or permit()).repositories["acme/shop"]
        clone = SharedRepository(tmp_path / "clones/shop.git", Remote(settings.url))
        lease = changes.pop("lease", Lease())
        fields = STEP | {"input": ASKED | {"accepted": accepted}} | changes
        return Delivery(
            Spec.model_validate(planner.spec("deliver", **fields)), clone, settings, cast("LeaseClient", lease)
        ).run()

    return run


def delivered(result: Result) -> dict[str, Any]:
    """What was answered, without the lines that a reviewer has to read."""
    found: dict[str, Any] = dict(result.report.output)
    assert found.pop("lines", 1) > 0
    return found


def test_a_repository_whose_reviewers_have_enough_to_read_takes_one_more_once_something_is_merged(
    deliver: Deliver, permit: Permit, remote: Repo, accepted: list[dict[str, Any]]
) -> None:
    remote.git("branch", "planner/another", "main")
    other = remote.commit_on("planner/another", "calc.py", "def add(a, b):\n    return b + a\n")
    one = permit(may="push = true\nmax_open_changes = 1")

    full = deliver(accepted, one)
    lines = deliver(accepted, permit(may="push = true\nmax_review_lines = 2"))

    for result, told in ((full, "1 changes wait for review, and 1 may"), (lines, "lines would wait for review")):
        assert result.released
        assert result.released.kind == "review"
        assert told in str(result.released)
    tree = remote.git("rev-parse", f"{other}^{{tree}}")
    squashed = remote.git(
        "-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", tree, "-p", "main", "-m", "Squashed"
    )
    remote.git("update-ref", "refs/heads/main", squashed)
    assert deliver(accepted, one).report.output["lines"] > 0
    assert deliver(accepted, one).report.output["branch"] == BRANCH  # its own branch does not count


def test_a_delivery_that_waited_for_a_review_names_the_targets_commit_if_that_moved(
    deliver: Deliver, permit: Permit, remote: Repo, accepted: list[dict[str, Any]]
) -> None:
    begin, tip = remote.git("rev-parse", "main"), remote.git("rev-parse", REF)
    landed = {"target_sha": begin, "result_sha": tip}
    asked = ASKED | {"accepted": accepted, "landed": landed}
    one = permit(may="push = true\nmax_open_changes = 1")
    remote.git("branch", "planner/another", "main")
    remote.commit_on("planner/another", "other.py", "1\n")
    assert deliver(accepted, one, input=asked).released

    remote.git("update-ref", "refs/heads/main", "planner/another")  # merged: there is room, and the target moved
    moved = remote.git("rev-parse", "main")
    again = deliver(accepted, one, input=asked | {"waited": True})

    assert again.report.output == {"target_sha": moved}
    assert remote.git("branch", "--list", BRANCH) == ""
    at_once = deliver(accepted, one, input=asked)
    assert at_once.report.output["branch"] == BRANCH
    there = deliver(accepted, one, input=asked | {"waited": True})
    assert there.report.output["branch"] == BRANCH  # open for review already


def test_what_a_fleet_has_verified_is_delivered_by_the_controller_that_may(
    planner: Planner, remote: Repo, forge: ForgeServer, start: Start, permit: Permit, tmp_path: Path
) -> None:
    planner.listen(DELIVER)
    before = remote.git("rev-parse", "main")
    fields: dict[str, Any] = {"verify_tools": [PYTEST], "context": CONTEXT}
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], **fields)
    planner.send("words", intent="write('words.py', '1\\n')", allowed_files=["words.py"], context=CONTEXT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/repos.toml").write_text(f'[repositories."acme/shop"]\nurl = "{remote.path}"\n')
    start(repositories=RepositoriesFile.read(tmp_path / "other/repos.toml"))
    done = [planner.outcome(name) for name in ("fix", "words")]
    accepted = [{"step_id": each.step_id, "attempt": 1, "diff_hash": each.diff_hash} for each in done]

    planner.send("deliver", DELIVER, **STEP, input=ASKED | {"accepted": accepted})
    consumers: Any = planner.redis.xinfo_consumers(DELIVER, "controllers")
    assert consumers == []
    start(repositories=permit(), queues=("other",))
    outcome = planner.outcome("deliver")

    assert outcome.success
    assert outcome.output == {"branch": BRANCH, "pull_request": URL, "lines": outcome.output["lines"]}
    assert outcome.metrics
    assert outcome.metrics.tokens_used == 0
    assert sorted(remote.landed()) == ["calc.py", "words.py"]
    assert remote.git("rev-parse", BRANCH) == remote.git("rev-parse", REF)
    assert remote.git("rev-parse", "main") == before
    assert TOKEN not in outcome.model_dump_json()


@pytest.mark.parametrize(
    ("kind", "text", "base"), [("github", "body", "base"), ("gitlab", "description", "target_branch")]
)
def test_a_second_delivery_finds_what_the_first_has_made(
    kind: str,
    text: str,
    base: str,
    deliver: Deliver,
    permit: Permit,
    accepted: list[dict[str, Any]],
    forge: ForgeServer,
) -> None:
    def break_off() -> None:
        raise ConnectionResetError

    forge.opened = break_off
    a_fork = {"head": BRANCH, "project_id": 1, "source_project_id": 2, "web_url": "https://forge.example/fork"}
    forge.pull_requests += [a_fork] if kind == "gitlab" else []

    lost = deliver([*accepted, {"step_id": "look", "attempt": 1, "diff_hash": None}], permit(kind))
    again = deliver(accepted, permit(kind))

    assert lost.released
    *others, made = forge.pull_requests
    assert len(others) == (kind == "gitlab")
    assert delivered(again) == {"branch": BRANCH, "pull_request": made.get("html_url") or made.get("web_url")}
    files = "**Files**\n\n- `calc.py` +1 \u22122\n- `words.py` +1 \u22122"
    assert (made["given"]["title"], made["given"][text]) == ("Fix @\u200ball of it", f"fixes #\u200b1\n\n{files}")
    assert made["given"][base] == "main"


@pytest.mark.parametrize("has_moved", [False, True])
def test_a_follow_up_adds_to_the_branch_of_the_plan_before_and_never_beyond_a_persons_commit(
    has_moved: bool, deliver: Deliver, remote: Repo, forge: ForgeServer, accepted: list[dict[str, Any]]
) -> None:
    before = "plan_3c-0199aaaabbbbccccddddeeeeffff1111"
    branch = f"planner/{before}"
    begin = remote.git("rev-parse", "main")
    remote.git("branch", branch, "main")
    theirs = remote.commit_on(branch, "calc.py", "by hand\n") if has_moved else ""
    forge.pull_requests.append({"head": branch, "html_url": URL, "given": {}})

    result = deliver(
        accepted, input=ASKED | {"accepted": accepted, "onto": before}, context=CONTEXT | {"base_sha": begin}
    )

    if has_moved:
        assert result.failure
        assert f"the branch {branch} is at {theirs[:12]}" in result.failure.message
        assert remote.git("rev-parse", branch) == theirs
    else:
        assert delivered(result) == {"branch": branch, "pull_request": URL}
        assert remote.git("rev-parse", branch) == remote.git("rev-parse", REF)
    assert len(forge.pull_requests) == 1


@pytest.mark.parametrize("knows_base", [True, False])
@pytest.mark.parametrize("what", ["on top", "forged", "left behind", "missing", "on its branch", "of a fork"])
def test_what_no_accepted_attempt_has_changed_is_never_delivered(
    what: str, knows_base: bool, deliver: Deliver, remote: Repo, forge: ForgeServer, accepted: list[dict[str, Any]]
) -> None:
    begin = remote.git("rev-parse", "main")
    if what == "on top":
        remote.git("branch", "aside", REF)
        told = remote.commit_on("aside", "words.py", "evil\n")[:12]
        remote.git("update-ref", REF, "aside")
    elif what == "forged":
        remote.git("branch", "aside", f"{REF}^")
        told = remote.commit_on("aside", "words.py", "evil\n", remote.git("log", "-1", "--format=%B", REF))[:12]
        remote.git("update-ref", REF, "aside")
    elif what == "left behind":
        told, accepted = remote.git("rev-parse", REF)[:12], accepted[:1]
    elif what == "missing":
        told, accepted = "more (attempt 2)", [*accepted, {"step_id": "more", "attempt": 2, "diff_hash": "0" * 64}]
    elif what == "on its branch":
        remote.git("branch", BRANCH, REF)
        told = remote.commit_on(BRANCH, "words.py", "reviewed\n")[:12]
    else:
        words = ("-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "main^{tree}", "-m", "another beginning")
        told = begin[:12]
        remote.git("update-ref", "refs/heads/main", remote.git(*words))
    there = remote.git("for-each-ref", "refs/heads")

    result = deliver(accepted, context=CONTEXT | ({"base_sha": begin} if knows_base else {}))

    assert result.failure
    assert told in result.failure.message
    assert forge.pull_requests == []
    assert remote.git("for-each-ref", "refs/heads") == there


@pytest.mark.parametrize(
    ("path", "limits", "told"),
    [
        ("src/deep/new.py", {"max_files": 2, "max_risk": "LOW"}, None),
        ("src/conftest.py", {"max_files": 2, "max_risk": "LOW"}, None),  # the goal names it
        ("src/login.py", {"max_files": 2, "max_risk": "MED"}, None),  # of a step that may change it
        ("src/login.py", {"max_files": 2, "max_risk": "LOW"}, "riskier than LOW: src/login.py"),
        ("docs/a.md", {"max_files": 2, "max_risk": "HIGH"}, "that the goal does not allow: docs/a.md"),
        ("src/old/a.py", {"max_files": 2, "max_risk": "HIGH"}, "that the goal does not allow: src/old/a.py"),
        ("src/.env", {"max_files": 2, "max_risk": "HIGH"}, "that the goal does not allow: src/.env"),
        ("src/state.tfvars", {"max_files": 2, "max_risk": "HIGH"}, None),
        ("src/setup.cfg", {"max_files": 2, "max_risk": "HIGH"}, "that the goal does not allow: src/setup.cfg"),
        ("src/migrations/1.py", {"max_files": 2, "max_risk": "MED"}, "riskier than MED: src/migrations/1.py"),
        ("src/a.py", {"max_files": 0, "max_risk": "LOW"}, "changes 1 files, allowed are 0"),
        ("src/a.py", {"created": 1}, None),
        ("src/a.py", {"created": 0}, "creates 1 files, and the outcomes reported 0: src/a.py"),
        ("calc.py", {"created": 0}, None),  # it was there
    ],
)
def test_a_commit_of_files_that_its_goal_does_not_allow_is_never_delivered(
    path: str, limits: dict[str, Any], told: str | None, deliver: Deliver, remote: Repo, forge: ForgeServer
) -> None:
    """Its controller may know no patterns, or lie: files are those of the trees."""
    remote.git("branch", "work", "main")
    commit = remote.commit_on("work", path, "1\n", f"Do it\n\nPlan: {PLAN}\nStep: fix\nAttempt: 1")
    digest = diff_hash(Git(remote.path), f"{commit}^", commit)
    remote.git("update-ref", REF, "work")
    row = {"step_id": "fix", "attempt": 1, "diff_hash": digest, **limits}
    allowlist = {"allowed": ["src/**", "src/conftest.py", "calc.py"], "excluded": ["src/old/**", "src/login.py"]}

    result = deliver([], input=ASKED | allowlist | {"accepted": [row]})

    if told is None:
        assert result.failure is None
        assert len(forge.pull_requests) == 1
    else:
        assert result.failure
        assert told in result.failure.message
        assert forge.pull_requests == []
        assert BRANCH not in remote.git("for-each-ref", "refs/heads")


@pytest.mark.parametrize(("path", "is_delivered"), [("src/state.tfvars", False), ("src/.env", True)])
def test_no_commit_of_a_name_that_the_operator_forbids_is_delivered(
    path: str, is_delivered: bool, deliver: Deliver, remote: Repo, forge: ForgeServer
) -> None:
    """The names stand in place of the usual ones, also those that `excluded` had no room for."""
    remote.git("branch", "work", "main")
    commit = remote.commit_on("work", path, "1\n", f"Do it\n\nPlan: {PLAN}\nStep: fix\nAttempt: 1")
    row = {"step_id": "fix", "attempt": 1, "diff_hash": diff_hash(Git(remote.path), f"{commit}^", commit)}
    remote.git("update-ref", REF, "work")
    allowlist = {"allowed": ["src/**"], "excluded": [], "forbidden": [".git", "*.tfvars"]}

    result = deliver([], input=ASKED | allowlist | {"accepted": [row]})

    assert len(forge.pull_requests) == is_delivered
    assert is_delivered or f"that the goal does not allow: {path}" in str(result.failure)


def test_a_plan_of_another_branch_is_for_that_branch(
    deliver: Deliver, remote: Repo, forge: ForgeServer, accepted: list[dict[str, Any]]
) -> None:
    begin = remote.git("rev-parse", "main")
    remote.git("branch", "feature/x", "main")
    remote.commit_on("feature/x", "notes.md", "more\n")
    words = ("-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "main^{tree}", "-m", "another beginning")
    remote.git("update-ref", "refs/heads/main", remote.git(*words))

    result = deliver(accepted, context=CONTEXT | {"base_sha": begin})

    assert result.failure is None
    assert forge.pull_requests[0]["given"]["base"] == "feature/x"


def test_a_branch_that_holds_a_part_is_moved_on_and_a_plan_that_changed_nothing_has_none(
    deliver: Deliver, remote: Repo, accepted: list[dict[str, Any]]
) -> None:
    remote.git("branch", BRANCH, f"{REF}^")

    assert delivered(deliver(accepted)) == {"branch": BRANCH, "pull_request": URL}
    assert remote.git("rev-parse", BRANCH) == remote.git("rev-parse", REF)

    remote.git("update-ref", "-d", REF)
    assert "changed nothing" in str(deliver([{"step_id": "look", "attempt": 1, "diff_hash": None}]).failure)
    assert "is not on the remote" in str(deliver(accepted).failure)
    assert "accepted" in str(deliver([], input={"accepted": "all"}).failure)


def test_who_has_lost_the_attempt_pushes_nothing(
    deliver: Deliver, remote: Repo, accepted: list[dict[str, Any]]
) -> None:
    lease = Lease()
    lease.held = False

    with pytest.raises(Abandoned):
        deliver(accepted, lease=lease)

    assert remote.git("for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"


@pytest.mark.parametrize(
    ("status", "headers", "is_released"),
    [
        (503, {}, True),
        (429, {}, True),
        (403, {"Retry-After": "60"}, True),
        (401, {}, False),
        (403, {}, False),
        (404, {}, False),
        (422, {}, False),
        (301, {"Location": "http://127.0.0.1:9/"}, False),
    ],
)
def test_a_forge_that_may_answer_later_is_told_from_one_that_will_not(
    status: int, headers: dict[str, str], is_released: bool, forge: ForgeServer, tmp_path: Path
) -> None:
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN)
    forge.status, forge.headers = status, headers
    here = Forge(ForgeKind.GITHUB, f"{forge.url}/github", "acme/shop", tmp_path / "token")

    with pytest.raises(CannotWork if is_released else Refused) as told:
        here.pull_request(PullRequest(BRANCH, "main", "Fix", ""))

    assert f"HTTP {status} no, not with ***" in str(told.value)


def test_what_the_remote_forbids_and_what_the_file_does_not_permit(
    deliver: Deliver,
    permit: Permit,
    remote: Repo,
    forge: ForgeServer,
    accepted: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    alone = deliver(accepted, permit(may="push = true"))
    assert delivered(alone) == {"branch": BRANCH, "pull_request": None}
    assert forge.asked == []
    remote.git("update-ref", "-d", f"refs/heads/{BRANCH}")

    hook = remote.path / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'branches are made by people' >&2; exit 1\n")
    hook.chmod(0o755)
    refused = deliver(accepted)
    assert refused.failure
    assert "branches are made by people" in refused.failure.message
    hook.unlink()

    file = permit()
    assert tmp_path / "token" in file.private  # which agents cannot reach
    (tmp_path / "token").chmod(0o644)
    assert "chmod 600" in str(deliver(accepted, file).released)
    assert TOKEN not in str(deliver(accepted, file).released)


def test_a_step_of_a_repository_without_permission_is_handed_back(
    planner: Planner, start: Start, permit: Permit, repo: Repo, accepted: list[dict[str, Any]]
) -> None:
    planner.listen(DELIVER)
    till = f'[repositories."acme/till"]\nurl = "{bare(repo, "till.git").path}"\n'
    start(repositories=permit(more=till))
    planner.send("till", DELIVER, **STEP | {"context": {"repo": "acme/till"}}, input=ASKED | {"accepted": accepted})

    released = planner.outcome("till").released

    assert "acme/till: the file of repositories permits no delivery" in (released.reason if released else "")


@pytest.mark.parametrize(
    ("url", "delivery", "told"),
    [
        ("https://github.com/acme/shop", "pull_request = true", "needs delivery.push"),
        ("https://github.com/acme/shop", "push = true\npull_request = true", "token_file"),
        ("https://git.example/acme/shop", "push = true\npull_request = true", "delivery.forge"),
        ("/srv/shop.git", "push = true\npull_request = true\nforge = 'gitlab'", "delivery.api"),
        ("/srv/shop.git", "push = true\nbranch = 'main'", "delivery.branch"),
        ("/srv/shop.git", "push = true\nbranch = '{plan_id}/../main'", "delivery.branch"),
        ("/srv/shop.git", "push = true\napi = 'http://git.example/api/v4'", "https://"),
        (
            "/srv/shop.git",
            "push = true\ntoken_file = 'open'\npull_request = true\nforge = 'github'\napi = 'https://x'",
            "chmod",
        ),
    ],
)
def test_a_permission_that_cannot_be_used_is_refused_at_the_start(
    url: str, delivery: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "repos.toml").write_text(
        f"[repositories.shop]\nurl = '{url}'\n[repositories.shop.delivery]\n{delivery}\n"
    )

    with pytest.raises(WrongRepositories) as refused:
        RepositoriesFile.read(tmp_path / "repos.toml")

    assert told in str(refused.value)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "forge", "kind", "api", "project"),
    [
        ("https://github.com/acme/shop.git", "", ForgeKind.GITHUB, "https://api.github.com", "acme/shop"),
        ("git@github.com:acme/shop.git", "", ForgeKind.GITHUB, "https://api.github.com", "acme/shop"),
        ("ssh://git@gitlab.com:22/a/b/shop", "", ForgeKind.GITLAB, "https://gitlab.com/api/v4", "a/b/shop"),
        ("git@git.example:a/Shop.git", "gitlab", ForgeKind.GITLAB, "https://git.example/api/v4", "a/Shop"),
        ("https://git.example/a/shop", "github", ForgeKind.GITHUB, "https://git.example/api/v3", "a/shop"),
    ],
)
def test_the_forge_is_known_by_the_url_of_the_repository(
    url: str, forge: str, kind: ForgeKind, api: str, project: str, tmp_path: Path
) -> None:
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN)
    named = f"forge = '{forge}'\n" if forge else ""
    (tmp_path / "repos.toml").write_text(
        f"[repositories.shop]\nurl = '{url}'\ntoken_file = 'token'\n"
        f"[repositories.shop.delivery]\npush = true\npull_request = true\n{named}"
    )
    found = RepositoriesFile.read(tmp_path / "repos.toml").repositories["shop"].forge

    assert (found.kind, found.api, found.project) == (kind, api, project)


@pytest.mark.parametrize(
    ("text", "obeyed"),
    [
        ("ask @alice or @acme/team", "@a"),
        ("Fixes #12", "#1"),
        ("closes GH-12", "GH-1"),
        ("resolves https://github.com/acme/shop/issues/12", "issues/1"),
        ("see !12 and https://gitlab.com/a/b/-/merge_requests/12", "!1"),
        ("Done.\n/merge", "/merge"),
        ("> /close", "/close"),
        ("Tidy [skip ci]", "[skip ci]"),
        ("Tidy [CI skip]", "[CI skip]"),
    ],
)
def test_words_that_a_forge_obeys_are_only_words(text: str, obeyed: str) -> None:
    assert obeyed in text
    assert obeyed not in disarm(text)
    assert disarm(text).replace("\u200b", "") == text


FIELDS = {"verify": "pytest test_calc.py"}
STEPS = [
    {"step_id": "fix", "title": "Fix add", "intent": FIX, "allowed_files": ["calc.py"]} | FIELDS,
    {"step_id": "words", "title": "Greet @all", "intent": "write('words.py', '1\\n')", "allowed_files": ["words.py"],
     "depends_on": ["fix"]} | FIELDS,
]  # fmt: skip


@pytest.mark.long
@pytest.mark.outages
def test_a_goal_is_delivered_although_the_deliverer_is_killed_between_push_and_answer(
    redis_url: str, remote: Repo, forge: ForgeServer, start: Start, permit: Permit, tmp_path: Path
) -> None:
    permit()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/repos.toml").write_text(f'[repositories."acme/shop"]\nurl = "{remote.path}"\n')
    goal = {"goal": "Make add add", "goal_id": "g-1", "steps": STEPS, "delivery": {"pull_request": True}}
    goal["context"] = {"repo": "acme/shop", "base_sha": remote.git("rev-parse", "main"), "language": "python"}
    goal["allowed_files"] = ["calc.py", "words.py"]
    (tmp_path / "goal.json").write_text(json.dumps(goal))
    words = ("controller", "--repos", str(tmp_path / "repos.toml"), "--queue", "deliver", "--sandbox", "off")
    environment = {**os.environ, "PLANNER_REDIS_URL": redis_url}
    with hasty_worker(redis_url, redis_url, tmp_path / "worker.log", tasks__SILENT_MS=2500):
        with (tmp_path / "deliverer.log").open("wb") as log:
            first = subprocess.Popen([*PLANNER, *words], env=environment, stdout=log, stderr=log)
        forge.opened = first.kill
        start(repositories=RepositoriesFile.read(tmp_path / "other/repos.toml"))

        waiting = ("submit", str(tmp_path / "goal.json"), "--wait", "end", "--timeout", "2m", "--json")
        submitter = subprocess.Popen([*PLANNER, *waiting], env=environment, stdout=subprocess.PIPE, text=True)
        first.wait(60)
        start(repositories=permit(), queues=("other",))
        told, _ = submitter.communicate(timeout=120)

    assert submitter.returncode == 0
    record = json.loads(told)
    branch = f"planner/{record['plan_id']}"
    assert (record["state"], record["branch"], record["pull_request"]) == ("COMPLETED", branch, URL)
    assert len(forge.pull_requests) == 1
    assert remote.git("rev-parse", branch) == remote.git("rev-parse", f"refs/planner/{record['plan_id']}")
    assert remote.git("diff", "--name-only", "main", branch).splitlines() == ["calc.py", "words.py"]
    assert remote.git("log", "--format=%s", f"main..{branch}").splitlines() == ["Greet @\u200ball", "Fix add"]
