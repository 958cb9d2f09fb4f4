"""What an agent does to its clone, and what the base commit holds, changes neither our git nor the operator's files."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.support.controlling import BRANCH, FILES, FIX, PYTEST, Planner, Repo, clone_with, evidence
from worker.controller import changes, snapshot

pytestmark = pytest.mark.outages  # each has a controller, agents and git

Start = Callable[..., None]
LISTED = "report(output=[open('calc.py').read(), sorted(os.listdir())])"
AS_BEGUN = [FILES["calc.py"], [".git", *sorted(FILES)]]
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-rewrite")


def state_of(repo: Repo) -> dict[str, object]:
    """Tell everything of the operator's repository but the plan's branch."""
    data = repo.path / ".git"
    return {
        "refs": [line for line in repo.git("for-each-ref").splitlines() if BRANCH not in line],
        "kept": {name: (data / name).read_bytes() for name in ("HEAD", "index", "config")},
        "hooks": sorted(path.name for path in (data / "hooks").iterdir()),
        "info": {path.name: path.read_text() for path in (data / "info").iterdir()},
        "files": {path.name: path.read_bytes() for path in repo.path.iterdir() if path.is_file()},
    }


CONFIGURED = {
    "a clean filter": "git('config', 'filter.x.clean', RUN); write('.git/info/attributes', '* filter=x')",
    "a smudge filter": "git('config', 'filter.x.smudge', RUN); write('.git/info/attributes', '* filter=x')",
    "a filter process": "git('config', 'filter.x.process', RUN); write('.git/info/attributes', '* filter=x')",
    "a filter of the tree": "git('config', 'filter.x.clean', RUN); write('.gitattributes', '* filter=x')",
    "a text conversion": "git('config', 'diff.x.textconv', RUN); write('.gitattributes', '* diff=x')",
    "an external diff": "git('config', 'diff.external', RUN)",
    "a merge driver": "git('config', 'merge.x.driver', RUN); write('.gitattributes', '* merge=x')",
    "a file system monitor": "git('config', 'core.fsmonitor', RUN)",
    "hooks": "link_hooks('.git/hooks')",
    "hooks in another place": "link_hooks('.git/mine'); git('config', 'core.hooksPath', os.path.abspath('.git/mine'))",
    "an included file": "write('.git/more', '[core] fsmonitor = ' + RUN); git('config', 'include.path', 'more')",
    "a program for signatures": "git('config', 'gpg.program', RUN); git('config', 'commit.gpgSign', 'true')",
    "aliases": "[git('config', 'alias.' + word, '!' + RUN) for word in ('ls-tree', 'read-tree', 'diff-tree')]",
    "another git directory": "git('init', '-q', '.git/other'); os.rename('.git/other/.git', '.git/o');"
    "write('.git/o/config', '[core] fsmonitor = ' + RUN); os.rename('.git', 'g'); write('.git', 'gitdir: g/o')",
}
SHOWN = {"another git directory": "SANDBOX_VIOLATION"}  # such a file is a link, and `g` is not allowed


@pytest.mark.parametrize("way", CONFIGURED)
def test_no_git_of_ours_runs_what_an_agent_configured(
    way: str, planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    (program := tmp_path / "program").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexec cat\n")
    program.chmod(0o755)
    before = state_of(repo)
    begin = (
        f"RUN = {str(program)!r}\n"
        "def link_hooks(place):\n"
        f"    os.makedirs(place, exist_ok=True); [os.symlink(RUN, place + '/' + name) for name in {HOOKS!r}]\n"
    )
    allowed = ["calc.py", ".gitattributes"]
    planner.send("bad", intent=f"{begin}{CONFIGURED[way]}\n{FIX}", allowed_files=allowed)
    planner.send("next", intent="write('words.py', 'fine')", allowed_files=["words.py"])
    start()

    failure = planner.outcome("bad").failure_evidence
    assert (failure and failure.category) == SHOWN.get(way)
    assert planner.outcome("next").success
    assert not (tmp_path / "ran").exists()
    assert "words.py" in repo.landed()
    assert state_of(repo) == before


HIDDEN = {
    "skip-worktree": "git('update-index', '--skip-worktree', 'words.py')",
    "assume-unchanged": "git('update-index', '--assume-unchanged', 'words.py')",
    "its index removed": "os.remove('.git/index')",
    "a sparse checkout": "git('sparse-checkout', 'set', '--no-cone', '/calc.py')",
    "a commit": "git('add', '.'); commit()",
    "a replaced commit": "commit(); git('replace', 'HEAD~1', 'HEAD')",
    "a graft": "commit(); write('.git/info/grafts', subprocess.check_output(['git', 'rev-parse', 'HEAD'], text=True))",
    "a moved branch": "commit(); git('update-ref', 'refs/heads/main', 'HEAD')",
    "the old times": "was = os.stat('words.py'); write('words.py', 'def greet(name):\\n    return NAME\\n');"
    "os.utime('words.py', ns=(was.st_atime_ns, was.st_mtime_ns))",
    "ignored": "write('.git/info/exclude', '*'); git('config', 'core.excludesFile', '/dev/stdin')",
}


@pytest.mark.parametrize("way", HIDDEN)
def test_a_change_cannot_be_hidden_from_us(way: str, planner: Planner, repo: Repo, start: Start) -> None:
    before = state_of(repo)
    writes = "" if way == "the old times" else "write('words.py', 'other')"
    planner.send("bad", intent=f"{writes}\n{HIDDEN[way]}\n{writes}", allowed_files=["calc.py"])
    planner.send("next", intent="report(output=open('words.py').read())", mode="read_only")
    start(is_strict=True)

    assert evidence(planner.outcome("bad")).category == "ALLOWLIST_VIOLATION"
    assert "words.py" in planner.outcome("bad").touched_files
    assert planner.outcome("next").output == FILES["words.py"]
    assert repo.landed() == []
    assert state_of(repo) == before


@pytest.mark.parametrize(
    ("intent", "touched"),
    [
        ("write('.gitignore', '*'); write('conftest.py', '')", (".gitignore", "conftest.py")),
        ("os.mkdir('a'); write('a/.gitignore', '*'); write('a/b.py', '')", ("a/.gitignore", "a/b.py")),
        ("os.mkfifo('conftest.py')", ("conftest.py",)),
        ("write('CALC.py', '')", ("CALC.py",)),
        ("os.mkdir('.GIT'); write('.GIT/config', '')", (".GIT",)),
        ("git('init', 'inner'); write('inner/a.py', '')", ("inner/.git", "inner/a.py")),
        ("os.mkdir('b'); write('b/.git', 'gitdir: /'); write('b/a.py', '')", ("b/.git", "b/a.py")),
        ("write(':!calc.py', ''); write('-f', '')", ("-f", ":!calc.py")),
    ],
)
def test_a_new_file_is_seen_whatever_it_is_called_and_whatever_ignores_it(
    intent: str, touched: tuple[str, ...], planner: Planner, repo: Repo, start: Start
) -> None:
    planner.send("bad", intent=f"{intent}; {FIX}", allowed_files=["calc.py"])
    start(is_strict=True)

    outcome = planner.outcome("bad")

    assert evidence(outcome).category == "ALLOWLIST_VIOLATION"
    assert set(outcome.touched_files) == {"calc.py", *touched}
    assert repo.landed() == []


@pytest.mark.parametrize(
    "intent",
    [
        "os.mkfifo('.gitattributes'); os.mkfifo('.gitignore'); os.mkfifo('words.py.lock'); os.remove('words.py');"
        "os.mkfifo('words.py')",
        "os.chmod('pkg', 0); os.chmod('calc.py', 0)",
        "shutil.rmtree('.git'); os.symlink('/etc', '.git')",
        "shutil.rmtree('pkg'); os.symlink('/etc', 'pkg')",
        "os.remove('calc.py'); os.mkdir('calc.py'); write('calc.py/x', '')",
        "[os.makedirs('/'.join(['d'] * 50)), [(os.chdir('/'.join(['d'] * 50)), os.makedirs('/'.join(['d'] * 50))) "
        "for _ in range(40)]]",
        "os.mkdir('d'); git('init', 'd/e'); os.link('calc.py', 'd/link.py'); write('d/link.py', 'changed')",
        "os.makedirs('vendor/lib/.git'); write('vendor/lib/.git/config', ''); write('vendor/lib/conftest.py', '')",
    ],
)
def test_the_next_attempt_begins_clean_whatever_was_left_behind(
    intent: str, planner: Planner, repo: Repo, start: Start
) -> None:
    (repo.path / "pkg").mkdir()
    (repo.path / "pkg/inner.py").write_text("x = 1\n")
    head = repo.git("rev-parse", "HEAD")
    repo.git("add", "pkg")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendor/lib")
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "A package and a submodule")
    looks = (
        "report(output=[open('calc.py').read(), open('pkg/inner.py').read(), os.path.islink('pkg'),"
        "os.listdir('vendor/lib'), sorted(os.listdir()), os.stat('calc.py').st_mode & 0o777,"
        "subprocess.run(['git', 'status', '--porcelain'], capture_output=True, text=True).stdout])"
    )
    planner.send("bad", intent=f"import shutil; {intent}", mode="read_only")
    planner.send("next", intent=looks, mode="read_only")
    start()

    planner.outcome("bad")
    listed = sorted([".git", *FILES, "pkg", "vendor"])
    output = planner.outcome("next").output
    assert output == [FILES["calc.py"], "x = 1\n", False, [], listed, 0o644, ""]
    assert repo.landed() == []


def test_a_ref_that_an_agent_made_is_a_line_of_the_evidence_and_nothing_more(
    planner: Planner, repo: Repo, start: Start
) -> None:
    before = state_of(repo)
    refs = "git('branch', 'mine'); git('tag', 'v1'); git('pack-refs', '--all'); git('update-ref', 'refs/x/y', 'HEAD')"
    planner.send("bad", intent=f"{refs}; sys.exit('ImportError: No module named zlob')")
    planner.send("good", intent=f"{refs}; {FIX}; git('add', '.'); commit()", allowed_files=["calc.py"])
    start()

    bad = evidence(planner.outcome("bad"))
    assert bad.category == "IMPORT_ERROR"
    for ref in ("refs/heads/mine", "refs/tags/v1", "refs/x/y"):
        assert ref in (bad.stack_trace_head or "")
    assert BRANCH not in (bad.stack_trace_head or "")
    assert planner.outcome("good").success
    assert repo.landed() == ["calc.py"]
    assert state_of(repo) == before


def test_objects_of_the_clone_are_neither_ours_nor_the_operators(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    spoil = (
        "files = [p for p in pathlib.Path('.git/objects').rglob('*') if p.is_file()];"
        "told = {str(p): p.stat().st_nlink for p in files};"
        "[(p.chmod(0o644), p.write_bytes(b'spoilt')) for p in files];"
        "report(output=[sorted(set(told.values())), os.path.exists('.git/objects/info/alternates')])"
    )
    planner.send("bad", intent=spoil, mode="read_only")
    planner.send("next", intent=FIX, allowed_files=["calc.py"])
    planner.send("log", intent="report(output=subprocess.check_output(['git', 'log', '--format=%s'], text=True))",
                 mode="read_only")  # fmt: skip
    start()

    assert planner.outcome("bad").output == [[1], False]
    assert planner.outcome("next").success
    assert planner.outcome("log").output == "Do next\nBegin\n"
    repo.git("fsck", "--full", "--strict")


@pytest.mark.parametrize(
    ("links", "allowed", "named"),
    [
        ({"calc.py": "/etc/passwd"}, ["calc.py"], "calc.py"),
        ({"calc.py": "../../outside"}, ["calc.py"], "calc.py"),
        ({"sub": "../../outside"}, ["sub/new.py"], "sub/new.py"),
        ({"a": "b", "b": "../.."}, ["a/x/y.py"], "a/x/y.py"),
        ({"sub": ".git"}, ["sub/hooks/post-checkout"], "sub/hooks/post-checkout"),
    ],
)
def test_an_allowed_path_that_a_link_of_the_base_leads_out_is_refused_before_the_agent_runs(
    links: dict[str, str], allowed: list[str], named: str, planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    linked(repo, links)
    planner.send("fix", intent=f"write({str(tmp_path / 'ran')!r}, '')", allowed_files=allowed)
    start()

    outcome = planner.outcome("fix")

    assert evidence(outcome).category == "SANDBOX_VIOLATION"
    assert evidence(outcome).affected_files == (named,)
    assert "links lead out of the clone" in (outcome.error_message or "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("word", ["tests/test_x.py::test_a", "--config=tests/x.ini", "tests"])
def test_a_verification_of_what_a_link_leads_out_to_is_refused(
    word: str, planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    linked(repo, {"tests": "../../outside"})
    tool = {"tool": "python", "argv": ["python", "-c", f"open({str(tmp_path / 'ran')!r}, 'w')", word], "timeout_s": 60}
    planner.send("check", mode="test", verify_tools=[tool])
    start()

    assert evidence(planner.outcome("check")).category == "SANDBOX_VIOLATION"
    assert not (tmp_path / "ran").exists()


def test_links_within_the_clone_are_followed_and_what_they_lead_to_must_be_allowed(
    planner: Planner, repo: Repo, start: Start
) -> None:
    linked(repo, {"alias.py": "calc.py"})
    through = FIX.replace("calc.py", "alias.py")
    planner.send("bad", intent=through, allowed_files=["alias.py"])
    planner.send("good", intent=through, allowed_files=["alias.py", "calc.py"])
    start(is_strict=True)

    assert evidence(planner.outcome("bad")).affected_files == ("calc.py",)
    assert planner.outcome("good").touched_files == ("calc.py",)
    assert repo.landed() == ["calc.py"]


def linked(repo: Repo, links: dict[str, str]) -> None:
    for name, target in links.items():
        (repo.path / name).unlink(missing_ok=True)
        (repo.path / name).symlink_to(target)
        repo.git("add", name)
    repo.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Links")


def test_what_is_landed_is_what_was_verified(planner: Planner, repo: Repo, start: Start) -> None:
    swaps = {"tool": "python", "argv": ["python", "-c", "open('calc.py', 'w').write('fine')"], "timeout_s": 60}
    planner.send("fix", intent="write('calc.py', 'broken')", allowed_files=["calc.py"], verify_tools=[swaps])
    start()

    assert "calc.py" in (planner.outcome("fix").error_message or "")
    assert repo.landed() == []


def test_forged_caches_do_not_pass_the_verification(planner: Planner, repo: Repo, start: Start) -> None:
    forge = (
        "import py_compile; write('calc.py', 'def add(a, b):\\n    return a + b\\n');"
        "py_compile.compile('calc.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH);"
        "write('calc.py', 'def add(a, b):\\n    return 0\\n')"
    )
    planner.send("fix", intent=forge, allowed_files=["calc.py"], verify_tools=[PYTEST])
    start()

    assert evidence(planner.outcome("fix")).category == "TEST_REGRESSION"
    assert repo.landed() == []


def test_tests_run_in_a_clone_that_no_agent_had(planner: Planner, repo: Repo, start: Start, tmp_path: Path) -> None:
    """Git knows of no empty folder, and the git directory is no part of a change: neither is seen as one."""
    left = "os.mkdir('left'); write('.git/left', ''); git('config', 'core.fsmonitor', 'left')"
    look = f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(repr([os.path.exists('left'), os.listdir('.git')]))"
    tool = {"tool": "look", "argv": [sys.executable, "-c", look], "timeout_s": 60}
    planner.send("fix", intent=f"{left}; {FIX}", allowed_files=["calc.py"], verify_tools=[tool, PYTEST])
    start()

    done = planner.outcome("fix")

    there, git_directory = ast.literal_eval((tmp_path / "seen").read_text())
    assert (done.success, there, "left" in git_directory) == (True, False, False)
    assert {(receipt.isolation or "").split()[0] for receipt in done.verify or ()} == {"clone"}


def test_more_files_than_can_be_looked_at_fail_the_attempt_alone(
    planner: Planner, repo: Repo, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST", 50)
    many = "os.makedirs('node_modules/a'); [write(f'node_modules/a/{n}', '') for n in range(100)]"
    planner.send("bad", intent=many, allowed_files=["calc.py"])
    planner.send("next", intent=LISTED, mode="read_only")
    start()

    assert "more than 50 files" in (planner.outcome("bad").error_message or "")
    assert planner.outcome("next").output == AS_BEGUN


def test_the_attributes_of_a_file_change_no_byte_and_hide_no_line(planner: Planner, repo: Repo, start: Start) -> None:
    attributes = "write('.gitattributes', '* text eol=crlf ident working-tree-encoding=UTF-16 -diff')"
    text = "write('calc.py', '# $Id$\\r\\n' + 'x = 1\\n' * 300)"
    planner.send("long", intent=f"{attributes}; {text}", allowed_files=["calc.py", ".gitattributes"])
    planner.send("short", intent=f"{attributes}; write('calc.py', '# $Id$\\r\\nx = 1\\n')",
                 allowed_files=["calc.py", ".gitattributes"])  # fmt: skip
    planner.send("look", intent="report(output=open('calc.py', newline='').read())", mode="read_only")
    start()

    assert "the change has" in (planner.outcome("long").error_message or "")
    assert planner.outcome("short").success
    blob = subprocess.check_output(["git", "cat-file", "blob", f"{BRANCH}:calc.py"], cwd=repo.path)
    assert blob == b"# $Id$\r\nx = 1\n"
    assert planner.outcome("look").output == blob.decode()


def test_a_change_that_is_too_large_is_refused_before_it_is_copied(
    planner: Planner, repo: Repo, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGE_BYTES", 1000)
    planner.send("fix", intent="write('calc.py', ''); os.truncate('calc.py', 10 ** 12)", allowed_files=["calc.py"])
    start()

    assert "make a smaller change" in (evidence(planner.outcome("fix")).suggestion or "")


def test_our_git_has_no_secret_and_no_configuration_of_a_person(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    (wrapper := tmp_path / "bin/git").parent.mkdir()
    real = subprocess.check_output(["sh", "-c", "command -v git"], text=True).strip()
    wrapper.write_text(f'#!/bin/sh\nenv >> {told}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / ".gitconfig").write_text("this is no configuration")
    planner.send("fix", intent=FIX, allowed_files=["calc.py"])
    names = ("PLANNER_REDIS_URL", "AWS_SECRET_ACCESS_KEY", "GIT_DIR", "GIT_CONFIG_PARAMETERS", "GIT_INDEX_FILE")

    with monkeypatch.context() as environment:
        environment.setenv("HOME", str(tmp_path))
        environment.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
        for name in names:
            environment.setenv(name, "a-secret")
        start()
        outcome = planner.outcome("fix")

    assert outcome.success
    assert "GIT_NO_REPLACE_OBJECTS=1" in told.read_text()
    assert "a-secret" not in told.read_text()


def test_what_the_repository_itself_configures_is_not_run_either(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    (program := tmp_path / "program").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexec cat\n")
    program.chmod(0o755)
    for hook in HOOKS:
        (repo.path / ".git/hooks" / hook).symlink_to(program)
    for name in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.external", "core.sshCommand"):
        repo.git("config", name, str(program))
    (repo.path / ".git/info/attributes").write_text("* filter=x\n")
    (tmp_path / "ran").unlink(missing_ok=True)
    before = state_of(repo)
    planner.send("fix", intent=FIX, allowed_files=["calc.py"])
    start()

    assert planner.outcome("fix").success
    assert not (tmp_path / "ran").exists()
    assert state_of(repo) == before


@pytest.mark.parametrize("place", ["a subfolder", "a linked worktree", "a bare repository"])
def test_the_repository_may_be_named_by_any_of_its_places(
    place: str, planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "place"
    if place == "a subfolder":
        (folder := repo.path / "sub").mkdir()
    elif place == "a linked worktree":
        repo.git("worktree", "add", "-q", "--detach", str(folder))
    else:
        repo.git("clone", "-q", "--bare", ".", str(folder))
    planner.send("one", intent=FIX, allowed_files=["calc.py"])
    planner.send("two", intent="write('words.py', '')", allowed_files=["words.py"])
    start(workdir=folder)

    assert planner.outcome("one").success
    assert planner.outcome("two").success
    git = ["git", "-C", str(folder), "log", "-1", "--format=%s", BRANCH]
    assert subprocess.check_output(git, text=True) == "Do two\n"
    if place == "a linked worktree":
        repo.git("worktree", "remove", str(folder))


def test_a_sibling_that_landed_meanwhile_is_merged_without_a_program_of_anybody(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    before = state_of(repo)
    patient = "write('ready', ''); wait_for('go'); os.remove('ready'); os.remove('go')"
    planner.send("fix", intent=f"{patient}; {FIX}", allowed_files=["calc.py"])
    start()
    clone = clone_with(tmp_path, "ready")
    for number in range(60):  # more commits than a clone has of the past
        repo.commit_on(BRANCH, "words.py", f"# {number}\n")
    (clone / "go").touch()

    assert planner.outcome("fix").success
    assert repo.landed() == ["calc.py", "words.py"]
    assert repo.git("show", f"{BRANCH}:words.py") == "# 59"
    assert repo.git("log", "-1", "--format=%s", BRANCH) == "Do fix"
    assert state_of(repo) == before
    wait_until(lambda: planner.pending() == 0, what="acknowledged")


def test_a_shallow_repository_of_another_object_format_works_too(
    planner: Planner, repo: Repo, start: Start, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    repo.path.rename(whole)
    (whole / ".git").rename(tmp_path / "gone")
    run = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q", "-b", "main", "--object-format=sha256"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*run, *words], cwd=whole, check=True)
    for number in range(3):
        subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", str(number)], cwd=whole, check=True)
    subprocess.run(["git", "clone", "-q", "--depth=2", f"file://{whole}", str(repo.path)], check=True)
    planner.send("one", intent=FIX, allowed_files=["calc.py"])
    planner.send("two", intent="write('words.py', '')", allowed_files=["words.py"])
    start()

    assert planner.outcome("one").success
    assert planner.outcome("two").success
    assert repo.landed() == ["calc.py", "words.py"]
