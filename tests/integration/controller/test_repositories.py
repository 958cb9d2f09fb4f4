"""Controllers on many hosts, with clones of their own, whose plans' branches are shared through the remote."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.controlling import FIX, PLAN, PYTEST, Planner, Repo, bare
from worker.controller.config import ControllerConfig
from worker.controller.permission import Permission
from worker.controller.places import Places
from worker.controller.readiness import CannotWork, RemoteTrouble, UnknownCommit
from worker.controller.remote import Remote
from worker.controller.repositories_file import RepositoriesFile, WrongRepositories
from worker.controller.repository import Repository
from worker.controller.setup import Setup
from worker.controller.shared import SharedRepository
from worker.controller.worktree import worktree
from worker.host.git import GitError
from worker.render.result import take_of

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
REF = f"refs/planner/{PLAN}"


@pytest.fixture
def remote(repo: Repo) -> Repo:
    return bare(repo, "shop.git")


def on_host(tmp_path: Path, name: str, **urls: Path) -> RepositoriesFile:
    """Write the file of the host `name`, and read it."""
    (tmp_path / name).mkdir()
    tables = "".join(f'[repositories."acme/{repo}"]\nurl = "{url}"\n' for repo, url in urls.items())
    (tmp_path / name / "repos.toml").write_text(tables)
    return RepositoriesFile.read(tmp_path / name / "repos.toml")


def test_two_hosts_land_on_one_branch_of_the_remote_and_touch_nothing_else(
    planner: Planner, repo: Repo, remote: Repo, start: Start, tmp_path: Path
) -> None:
    before = remote.git("for-each-ref")
    (tmp_path / "met").mkdir()
    meet = f"meet({str(tmp_path / 'met')!r} + '/' + spec['step_id'])"
    context = {"repo": "acme/shop", "base_sha": None}
    planner.send("fix", intent=f"{meet}; {FIX}", allowed_files=["calc.py"], verify_tools=[PYTEST], context=context)
    planner.send("words", intent=f"{meet}; write('words.py', '1\\n')", allowed_files=["words.py"], context=context)
    for host in ("one", "two"):
        start(repositories=on_host(tmp_path, host, shop=remote.path))

    assert planner.outcome("fix").success
    assert planner.outcome("words").success

    planner.send(
        "look",
        mode="read_only",
        intent="report(output=open('calc.py').read() + open('words.py').read())",
        context=context,
    )
    assert planner.outcome("look").output == "def add(a, b):\n    return a + b\n1\n"
    assert remote.git("diff", "--name-only", "main", REF).splitlines() == ["calc.py", "words.py"]
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(remote.path), str(clone)], check=True)
    take, _ = take_of(PLAN, planner.outcome("fix").ref)
    subprocess.run(take, shell=True, cwd=clone, check=True)  # as a person runs it
    assert (clone / "words.py").read_text() == "1\n"
    assert remote.git("rev-list", "--count", f"main..{REF}") == "2"
    assert [line for line in remote.git("for-each-ref").splitlines() if REF not in line] == before.splitlines()
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_repository_that_is_not_in_the_file_is_handed_back(
    planner: Planner, remote: Repo, start: Start, tmp_path: Path
) -> None:
    planner.send("fix", context={"repo": "acme/till", "base_sha": None})
    planner.send("gone", context={"repo": "acme/lost", "base_sha": None})
    planner.send("open", context={"repo": None, "base_sha": None})
    start(repositories=on_host(tmp_path, "one", shop=remote.path, lost=tmp_path / "nowhere.git"))

    fix, gone, unnamed = (planner.outcome(step_id) for step_id in ("fix", "gone", "open"))

    assert "acme/till is none of the repositories here" in (fix.released.reason if fix.released else "")
    assert "nowhere.git" in (gone.released.reason if gone.released else "")
    assert "names no repository" in (unnamed.released.reason if unnamed.released else "")


def test_a_file_of_repositories_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(WrongRepositories, match=r"/repos.toml cannot be read: No such file or directory\.$"):
        RepositoriesFile.read(tmp_path / "repos.toml")


def test_each_repository_has_its_agent_and_its_environment(
    planner: Planner, repo: Repo, remote: Repo, start: Start, tmp_path: Path
) -> None:
    till = bare(repo, "till.git")
    (tmp_path / "repos.toml").write_text(
        f'[repositories.shop]\nurl = "file://{remote.path}"\nenvironment = {{COLOUR = "red"}}\n'
        f'[repositories.till]\nurl = "{till.path}"\nagent = "sh -c \'echo of the till\'"\n'
    )
    for name in ("shop", "till"):
        intent = "report(output=os.environ.get('COLOUR'))"
        planner.send(name, mode="read_only", intent=intent, context={"repo": f"acme/{name}", "base_sha": None})
    start(repositories=RepositoriesFile.read(tmp_path / "repos.toml"))

    assert planner.outcome("shop").output == "red"
    assert planner.outcome("till").output == "of the till"


SETUP = """
[repositories.shop]
url = "{url}"
setup = "sh {folder}/setup.sh"
lock_files = ["words.py"]
setup_results = ["made"]
environment = {{PATH = "{{clone}}/made/bin:{path}"}}
"""


def test_what_a_setup_makes_is_made_once_for_a_lock_file_and_cannot_be_poisoned(
    planner: Planner, repo: Repo, remote: Repo, start: Start, tmp_path: Path
) -> None:
    made = "mkdir -p made/bin; printf '#!/bin/sh\\nexec grep -q +  calc.py\\n' > made/bin/lint; chmod +x made/bin/lint"
    (tmp_path / "setup.sh").write_text(
        f"set -e\n{made}\nln -s bin/lint made/link\necho ran >> {tmp_path}/counted/runs\n"
    )
    text = SETUP.format(url=remote.path, folder=tmp_path, path=os.environ["PATH"])
    (tmp_path / "repos.toml").write_text(text)
    (tmp_path / "counted").mkdir()
    lint = {"tool": "lint", "argv": ["lint"], "timeout_s": 60}
    context = {"repo": "shop", "base_sha": None}
    poison = (
        "import shutil; write('made/bin/lint', '#!/bin/sh\\n'); write('made/new', '');"
        "os.remove('made/link'); write('calc.py', '# nothing\\n')"
    )
    replace = "import shutil; shutil.rmtree('made'); os.symlink('/tmp', 'made')"
    fields: dict[str, Any] = {"allowed_files": ["calc.py", "words.py"], "verify_tools": [lint], "context": context}
    look = "report(output=[os.path.exists('made/new'), os.readlink('made/link'), open('made/bin/lint').read()])"
    planner.send("poison", intent=poison, **fields)
    planner.send("replace", intent=replace, **fields)
    planner.send("look", mode="read_only", intent=look, context=context)
    planner.send("fix", intent=FIX, **fields)
    start(repositories=RepositoriesFile.read(tmp_path / "repos.toml"))

    assert not planner.outcome("poison").success
    assert not planner.outcome("replace").success
    assert planner.outcome("look").output == [False, "bin/lint", "#!/bin/sh\nexec grep -q +  calc.py\n"]
    fix = planner.outcome("fix")
    assert (fix.success, fix.touched_files) == (True, ("calc.py",))
    assert (tmp_path / "counted/runs").read_text() == "ran\n"

    planner.send("lock", intent="write('words.py', '2\\n')", **fields)
    planner.send("check", mode="test", **(fields | {"allowed_files": []}))

    assert planner.outcome("lock").success
    assert planner.outcome("check").success
    assert (tmp_path / "counted/runs").read_text() == "ran\nran\n"
    assert remote.git("diff", "--name-only", "main", REF).splitlines() == ["calc.py", "words.py"]


@pytest.mark.parametrize(
    ("results", "told"),
    [("made", "the registry is away"), ("calc.py", "calc.py is below setup_results, and is a file of the commit")],
)
def test_a_setup_that_cannot_be_used_hands_the_step_back(
    results: str, told: str, planner: Planner, remote: Repo, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "setup.sh").write_text("echo the registry is away >&2; exit 3\n")
    text = SETUP.format(url=remote.path, folder=tmp_path, path=os.environ["PATH"]).replace('["made"]', f'["{results}"]')
    (tmp_path / "repos.toml").write_text(text)
    planner.send("fix", intent=FIX, allowed_files=["calc.py"], context={"repo": "shop", "base_sha": None})
    start(repositories=RepositoriesFile.read(tmp_path / "repos.toml"))

    outcome = planner.outcome("fix")

    assert told in (outcome.released.reason if outcome.released else "")


def test_a_setup_is_run_anew_where_it_or_a_file_that_it_names_has_changed(tmp_path: Path) -> None:
    outside = tmp_path / "setup.sh"
    outside.write_text("true\n")
    setup = Setup(("sh", "tools/setup.sh", "--with=extras.txt", str(outside)), ("lock",), ("made",), 60)
    files = {b"lock": 1, b"tools/setup.sh": 1, b"extras.txt": 1, b"calc.py": 1}
    key = setup.key(files)

    assert setup.key(files | {b"calc.py": 2}) == key
    assert all(setup.key(files | {name: 2}) != key for name in list(files)[:3])
    assert replace(setup, argv=("sh", "tools/setup.sh")).key(files) != key
    os.utime(outside, (1, 1))
    assert setup.key(files) != key


def test_a_base_that_was_never_pushed_is_told_so_and_a_remote_that_is_away_is_not_taken_for_that(
    clone: SharedRepository, remote: Repo
) -> None:
    for name in ("1" * 40, "deadbeef"):
        with pytest.raises(UnknownCommit, match=f"base commit {name} is not on the remote {remote.path}"):
            clone.find(name)

    remote.path.rename(remote.path.with_name("away.git"))
    with pytest.raises(RemoteTrouble):
        clone.find("1" * 40)


def test_goals_of_unknown_repositories_and_bases_keep_no_other_from_its_work(
    planner: Planner, remote: Repo, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(6):
        planner.send(f"till-{number}", context={"repo": f"acme/till-{number}", "base_sha": None})
        planner.send(f"base-{number}", context={"repo": "acme/shop", "base_sha": str(number) * 40})
    planner.send("look", mode="read_only", context={"repo": "acme/shop", "base_sha": None})
    start(repositories=on_host(tmp_path, "one", shop=remote.path))

    assert planner.outcome("look").success
    assert len(planner.outcomes()) == 13
    assert [record for record in caplog.records if record.message == "controller_paused"] == []


@pytest.fixture
def clone(remote: Repo, tmp_path: Path) -> SharedRepository:
    return SharedRepository(tmp_path / "clones/shop.git", Remote(str(remote.path)))


def test_a_branch_is_moved_only_from_what_was_read(clone: SharedRepository, remote: Repo) -> None:
    base = clone.start(PLAN, None)
    theirs = remote.commit_on("main", "words.py", "1\n")
    assert remote.git("rev-parse", REF) == base

    remote.git("update-ref", REF, theirs)

    assert not clone.move(PLAN, base, "0" * 40)
    assert clone.tip(PLAN) == theirs
    assert clone.move(PLAN, base, theirs)
    assert remote.git("rev-parse", REF) == base


def test_plans_begin_where_the_base_branch_is_now(clone: SharedRepository, remote: Repo) -> None:
    newer = remote.commit_on("main", "words.py", "1\n")

    assert clone.start(PLAN, None) == newer


def test_what_the_remote_refuses_is_trouble_and_no_move(clone: SharedRepository, remote: Repo) -> None:
    base = clone.start(PLAN, None)
    remote.path.rename(remote.path.with_name("away.git"))

    with pytest.raises(RemoteTrouble, match=r"shop\.git"):
        clone.move(PLAN, base, base)


@pytest.mark.parametrize(
    ("message", "goes"),
    [(f"a\n\nPlan: {PLAN}\nStep: s\nAttempt: 1", True), ("a commit that plans begin at", False)],
)
def test_what_old_plans_have_left_is_dropped_here_and_at_the_remote(
    clone: SharedRepository, remote: Repo, message: str, goes: bool
) -> None:
    clone.start(PLAN, None)
    (clone.common / "planner.tidied").unlink()
    old = SharedRepository(clone.path, Remote(str(remote.path)), keep_days=1)
    old.start("plan_new", None)
    assert REF in remote.git("for-each-ref")
    stamp = {"GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    aged = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a", "commit-tree", "main^{tree}", "-p", "main", "-m", message],
        cwd=remote.path, env=stamp, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    remote.git("update-ref", REF, aged)
    clone.start(PLAN, None)
    (clone.common / "planner.tidied").unlink()

    old.start("plan_new", None)

    assert (REF not in remote.git("for-each-ref")) is goes
    assert clone.tip(PLAN) is None
    assert "plan_new" in remote.git("for-each-ref")


def test_a_plans_branch_that_somebody_deletes_meanwhile_is_made_again(repo: Repo, tmp_path: Path) -> None:
    repository, asked = Repository(repo.path), 0

    def confirm() -> None:
        nonlocal asked
        asked += 1
        assert asked < 4

    with worktree(repository, "one", tmp_path) as tree:
        tree.reset(PLAN, None)
        (tree.root / "new.txt").write_text("new\n")
        change = tree.changes(Permission(frozenset({"new.txt"})))
        repo.git("update-ref", "-d", f"refs/heads/planner/{PLAN}")
        commit = tree.land("s", change, "add a file", confirm)
    assert repository.tip(PLAN) == commit


@pytest.mark.parametrize("url", ["https://me:secret@127.0.0.1:1/shop.git", "http://secret@127.0.0.1:1/shop.git"])
def test_a_password_in_the_url_of_a_remote_is_told_to_nobody(repo: Repo, tmp_path: Path, url: str) -> None:
    repo.git("remote", "add", "origin", url)
    with pytest.raises(GitError) as refused:
        Repository(repo.path).find("1" * 40)
    assert "127.0.0.1" in str(refused.value)
    assert "secret" not in str(refused.value)

    config = ControllerConfig(redis_url="redis://localhost", workdir=repo.path, worktrees=tmp_path)
    with Places.opened(config) as places, pytest.raises(CannotWork) as elsewhere:
        places.of("acme/other")
    assert "secret" not in str(elsewhere.value)


def test_what_a_killed_controller_has_left_is_removed_by_the_next_one(repo: Repo, tmp_path: Path) -> None:
    left, stranger = tmp_path / "planner-dead-1", tmp_path / "planner-other"
    (left / "clone/shop").mkdir(parents=True)
    (left / "held").touch()
    stranger.mkdir()

    with worktree(Repository(repo.path), "one", tmp_path) as one:
        with worktree(Repository(repo.path), "two", tmp_path):
            assert not left.exists()
        assert one.root.parent.parent.exists()

    assert [path.name for path in tmp_path.glob("planner-*")] == [stranger.name]


def test_the_places_of_a_file_hold_wherever_git_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repos.toml").write_text('[repositories.shop]\nurl = "https://git.example/shop.git"\n')
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert RepositoriesFile.read(Path("../repos.toml")).folder.is_absolute()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[repositories.shop]\nurl = 'ext::sh -c true'", "repositories.shop.url"),
        ("[repositories.shop]\nurl = 'https://me:secret@git.example/shop'", "repositories.shop.url"),
        ("[repositories.shop]\nurl = '--upload-pack=x'", "repositories.shop.url"),
        ("[repositories.'../shop']\nurl = '/srv/shop.git'", "../shop"),
        ("[repositories.shop]\nurl = '/srv/shop.git'\nagent = 'my-agnt'", "my-agnt"),
        ("[repositories.shop]\nurl = '/srv/shop.git'\ntoken_file = 'none'", "there is no file"),
        ("[repositories.shop]\nurl = '/srv/shop.git'\nsetupp = 'x'", "setupp"),
        ("[repositories.shop]\nurl = '/srv/shop.git'\nsetup_results = ['x']", "those of a setup"),
        ("[repositories.shop]\nurl = '/srv/shop.git'\nsetup_results = ['../x']", "setup_results"),
        ("keep_days = 3", "repositories"),
        ("[", "no TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_of_the_mistake(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "repos.toml").write_text(text)

    with pytest.raises(WrongRepositories, match=r"repos\.toml") as refused:
        RepositoriesFile.read(tmp_path / "repos.toml")

    assert told in str(refused.value)
