"""What `planner submit` fills in from a real checkout, and from the variables of a CI job."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.goal import MAX_GOAL_BYTES, Goal
from tasks.rules.strategy import Draft, Setting
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.instructions import digests_of
from worker.engine.preview import preview
from worker.settings.settings import Settings
from worker.sources.ci import Job, job_of
from worker.sources.filling import Filling, fill

URL = "https://me:secret@git.example/acme/shop.git"
FILES = {
    "src/cart.py": "x = 1\n",
    "src/price.py": "y = 2\n",
    "tests/test_cart.py": "",
    "pyproject.toml": "[tool.ruff]\n",
    "docs/pyproject.toml": "[tool.mypy]\n",
    "uv.lock": "version = 1\n",
}
Repository = Callable[..., Path]


def git(folder: Path, *words: str) -> str:
    told = ["git", "-c", "user.name=a", "-c", "user.email=a@a", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(told, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    def make(files: dict[str, str] = FILES, url: str = URL, name: str = "shop") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")
        if url:
            git(folder, "remote", "add", "origin", url)
        write(folder, files)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", "a")
        return folder

    return make


def filled(folder: Path, *allowed: str, job: Job | None = None, **context: Any) -> Filling:
    return fill({"goal": "x", "allowed_files": list(allowed), "context": context}, folder, job)


def test_the_digests_of_its_instructions_are_those_of_the_commit_that_the_plan_begins_with(
    repository: Repository,
) -> None:
    texts = {"AGENTS.md": "Root.\n", "src/CLAUDE.md": "Src.\n"}
    folder = repository({**FILES, **texts, "docs/AGENTS.md": "Docs.\n"})
    base = git(folder, "rev-parse", "HEAD")
    write(folder, {"AGENTS.md": "Later.\n"})
    git(folder, "commit", "--quiet", "--all", "--message", "b")

    now = filled(folder, "src/*.py").body["context"]["instructions"]
    before = filled(folder, "src/*.py", base_sha=base).body["context"]["instructions"]

    assert now == digests_of({**texts, "AGENTS.md": "Later.\n"})
    assert before == digests_of(texts)
    many = {f"src/{number}/AGENTS.md": "x" for number in range(40)}
    other = repository({**FILES, **many}, name="other")
    assert "instructions" not in filled(other, "src/**").body["context"]


def test_a_checkout_fills_in_what_it_knows(repository: Repository) -> None:
    folder = repository()

    made = filled(folder, "src/*.py")

    assert made.body["context"] == {
        "repo": "acme/shop",
        "base_sha": git(folder, "rev-parse", "HEAD"),
        "language": "python",
        "manifests": {"pyproject.toml": "[tool.ruff]\n"},  # that of `docs` configures nothing for these files
        "files": [
            "src/cart.py",
            "src/price.py",
            "docs/pyproject.toml",
            "pyproject.toml",
            "tests/test_cart.py",
            "uv.lock",
        ],
        "files_complete": True,
        "definitions": {
            "src/cart.py": [{"name": "x", "line": 1, "end_line": 1}],
            "src/price.py": [{"name": "y", "line": 1, "end_line": 1}],
        },
    }
    assert made.filled == made.body["context"]
    assert made.summary["definitions"] == ["src/cart.py", "src/price.py"]
    assert "secret" not in repr(made)


@pytest.mark.parametrize("url", ["/srv/git/shop.git", "file:///srv/git/shop"])
def test_a_remote_that_names_no_repository_is_noted_with_the_option_that_does(repository: Repository, url: str) -> None:
    folder = repository(url=url)

    assert filled(folder, "src/cart.py").notes[0].endswith("Name it: --repo OWNER/NAME.")
    assert not any("--repo" in note for note in filled(folder, "src/cart.py", repo="acme/shop").notes)
    assert not any("--repo" in note for note in filled(repository(url="", name="alone"), "src/cart.py").notes)


def test_what_the_goal_says_stands(repository: Repository) -> None:
    said: dict[str, Any] = {"repo": "acme/shop", "base_sha": None, "files": [], "manifests": {}, "language": "go"}
    said["definitions"] = {}

    made = filled(repository(), "src/cart.py", **said)

    assert (made.body["context"], made.filled) == (said, {})


def test_files_are_those_of_the_commit_that_the_goal_names(repository: Repository) -> None:
    folder = repository()
    first = git(folder, "rev-parse", "HEAD")
    write(folder, {"src/new.py": ""})
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "b")

    assert "src/new.py" in filled(folder, "src/cart.py").body["context"]["files"]
    assert "src/new.py" not in filled(folder, "src/cart.py", base_sha=first).body["context"]["files"]

    unknown = filled(folder, "src/cart.py", base_sha="9f1c2d4")
    assert unknown.filled == {"repo": "acme/shop"}
    assert "does not have the commit 9f1c2d4" in unknown.notes[0]


def test_a_goal_that_goes_on_from_a_plan_begins_where_that_says(repository: Repository) -> None:
    body = {"goal": "x", "allowed_files": ["src/*.py"], "from": {"plan_id": "plan_00-" + "0" * 32}}

    made = fill(body, repository(), None)

    assert made.filled["files"]
    assert made.filled.keys().isdisjoint(("base_sha", "files_complete"))


def test_an_evolution_begins_at_its_own_base(repository: Repository) -> None:
    folder = repository()
    first = git(folder, "rev-parse", "HEAD")
    git(folder, "rm", "--quiet", "src/price.py")
    git(folder, "commit", "--quiet", "--message", "b")
    goal = {
        "goal": "x",
        "allowed_files": ["src/*.py"],
        "kind": "evolution",
        "evolution": {"base": {"commit_hash": first}},
    }

    for job in (None, Job("acme/shop", "a" * 40)):
        made = fill(goal, folder, job)

        assert "base_sha" not in made.filled
        assert "src/price.py" in made.filled["files"]


@pytest.mark.parametrize(
    ("allowed", "context", "why"),
    [
        (["lib/a.py"], {}, "this checkout has no file like lib/a.py."),
        (["src/cart.py", "lib/a.py", "src/**", "nosuch/**"], {}, "this checkout has no file like lib/a.py, nosuch/**."),
        (["src/cart.py"], {"repo": "acme/till"}, "this is a checkout of acme/shop"),
        ([], {}, None),
    ],
)
def test_a_goal_about_something_else_gets_nothing(
    repository: Repository, allowed: list[str], context: dict[str, Any], why: str | None
) -> None:
    made = filled(repository(), *allowed, **context)

    assert made.filled == {}
    assert (why in made.notes[0]) if why else not made.notes


@pytest.mark.parametrize(
    ("category", "allowed", "fills"),
    [
        ("roadmap", ["src/new/*.py"], True),
        ("roadmap", ["till/**"], True),
        ("inbox", ["till/money.py", "src/new/**/*.py"], True),
        ("roadmap", ["src/new/other.py"], False),
        ("roadmap", ["bank/*.py"], False),
        ("quality", ["till/*.py"], False),  # what a tool names is there, or is no file of this checkout
    ],
)
def test_what_a_roadmap_creates_may_be_in_a_folder_that_is_new(
    repository: Repository, category: str, allowed: list[str], fills: bool
) -> None:
    folder = repository()
    gap = {"category": category, "description": "Create src/new/parser.py and till/money.py", "priority": "high"}
    goal = {"kind": "gap_report", "allowed_files": allowed, "gap_report": {"gap_report": {"gaps": [gap]}}}

    made = fill(goal, folder, None)

    if fills:
        assert made.filled["base_sha"] == git(folder, "rev-parse", "HEAD")
        assert (made.filled["language"], list(made.filled["manifests"])) == ("python", ["pyproject.toml"])
    else:
        assert not made.filled


def test_a_glob_may_mean_a_folder_that_is_new_within_another(repository: Repository) -> None:
    folder = repository()

    assert filled(folder, "src/cart.py", "src/new/*.py").filled
    assert not filled(folder, "src/cart.py", "lib/*.py").filled
    assert not filled(folder, "src/new/*.py").filled  # nothing shows that it is about this checkout


def test_paths_begin_at_the_root_of_the_repository(repository: Repository) -> None:
    folder = repository()

    assert filled(folder / "src", "src/cart.py").filled["base_sha"] == git(folder, "rev-parse", "HEAD")
    assert "such as src/cart.py" in filled(folder / "src", "cart.py").notes[0]


def test_what_is_not_committed_is_no_part_of_the_plan(repository: Repository) -> None:
    folder = repository(url="")
    for touched in (folder / "src/cart.py", folder / "src/price.py"):
        os.utime(touched, (1, 1))  # as in a copied folder: nothing has changed
    assert filled(folder, "src/cart.py").notes == ()

    write(folder, {"src/cart.py": "x = 3\n", "pyproject.toml": "[tool.pyright]\n"})
    made = filled(folder, "src/cart.py")

    assert "not committed are no part of the plan" in made.notes[0]
    assert made.filled["manifests"] == {"pyproject.toml": "[tool.ruff]\n"}


def test_a_look_at_a_hostile_checkout_runs_none_of_its_programs(repository: Repository) -> None:
    folder = repository(FILES | {".gitattributes": "*.py filter=x=y\n"})
    for name in ("filter.x=y.clean", "filter.x=y.process", "core.fsmonitor", "diff.external"):
        git(folder, "config", name, f"touch {folder}/ran-{name}; cat")
    git(folder, "config", "filter.x=y.required", "true")
    os.utime(folder / "src/cart.py", (1, 1))

    assert filled(folder, "src/cart.py").filled["language"] == "python"
    assert list(folder.glob("ran*")) == []


def test_no_link_leads_out_of_the_checkout(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("[tool.ruff] # secret\n")
    folder = repository(FILES | {"pyproject.toml": ""})
    (folder / "pyproject.toml").unlink()
    (folder / "pyproject.toml").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "b")

    made = filled(folder, "src/cart.py")

    assert "manifests" not in made.filled
    assert {"pyproject.toml", "linked"}.isdisjoint(made.filled["files"])


def test_an_unpublished_commit_is_told(repository: Repository, tmp_path: Path) -> None:
    folder = repository()
    assert "push it" in filled(folder, "src/cart.py").notes[0]

    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{folder}", str(clone))  # shallow
    git(clone, "checkout", "--quiet", "--detach")

    made = filled(clone, "src/cart.py", repo="acme/shop")

    assert made.notes == ()
    assert made.filled["base_sha"] == git(folder, "rev-parse", "HEAD")
    assert "repo" not in made.filled  # a path of this machine is no name for others


def test_worktrees_submodules_and_bare_repositories_are_looked_at_too(repository: Repository, tmp_path: Path) -> None:
    folder = repository()
    head = git(folder, "rev-parse", "HEAD")
    git(folder, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    outer = repository({"a.py": ""}, "git@git.example:acme/all.git", "all")
    git(outer, "submodule", "add", "--quiet", str(folder), "shop")
    git(outer, "commit", "--quiet", "--message", "b")
    git(tmp_path, "clone", "--quiet", "--bare", str(folder), "bare")

    for place in (tmp_path / "tree", outer / "shop", tmp_path / "bare"):
        assert filled(place, "src/cart.py").filled["base_sha"] == head
    assert filled(outer, "a.py").filled["files"] == ["a.py", ".gitmodules"]


def test_without_git_or_a_commit_nothing_is_known(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "bare", {"a.py": ""})
    assert filled(tmp_path / "bare", "a.py") == filled(tmp_path / "nowhere", "a.py")
    git(tmp_path / "bare", "init", "--quiet")
    assert filled(tmp_path / "bare", "a.py").filled == {}

    folder = repository()
    monkeypatch.setenv("PATH", "")
    assert filled(folder, "src/cart.py").filled == {}
    job = Job("acme/shop", "9f1c2d4")
    assert filled(folder, "src/cart.py", job=job).filled == {"repo": "acme/shop", "base_sha": "9f1c2d4"}
    assert filled(folder, "src/cart.py", job=job, repo="acme/till").filled == {}


def test_a_job_names_its_repository_and_the_head_of_a_pull_request(repository: Repository) -> None:
    folder = repository()
    head = git(folder, "rev-parse", "HEAD")

    pushed = filled(folder, "src/cart.py", job=Job("Acme/Shop", head))
    pulled = filled(folder, "src/cart.py", job=Job("acme/shop", head, "b" * 40))
    elsewhere = filled(folder, "src/cart.py", job=Job("acme/ops", "c" * 40, "b" * 40))  # it checked out another one

    assert (pushed.filled["repo"], pushed.filled["base_sha"]) == ("Acme/Shop", head)
    assert pulled.filled["base_sha"] == "b" * 40
    assert (elsewhere.filled["repo"], elsewhere.filled["base_sha"]) == ("acme/shop", head)
    assert filled(folder, job=Job("acme/shop", head)).filled["base_sha"] == head
    assert filled(folder, "src/cart.py", job=Job("acme/ops", head), repo="acme/ops").filled == {}


def test_without_a_language_a_makefile_says_how_tests_are_run(repository: Repository) -> None:
    rules = "test := 1\nTEST:\ncheck: all\n\ttrue\n"
    folder = repository({"lib/a.rb": "", "Makefile": rules})

    assert filled(folder, "lib/a.rb").filled["test_command"] == "make check"
    assert "test_command" not in filled(folder, "lib/a.rb", test_command="make test").filled


@pytest.mark.parametrize("wrong", [3, True, "\x00--all", ["x"], {"a": []}])
def test_a_goal_of_any_shape_is_left_to_whoever_reads_it(repository: Repository, wrong: Any) -> None:
    folder = repository()
    names = ("repo", "base_sha", "language", "test_command", "failing_tests", "files", "manifests")
    goals = [{"goal": wrong, "allowed_files": ["src/cart.py"], "context": {name: wrong}} for name in names]
    goals += [{name: wrong} for name in ("goal", "allowed_files", "evolution", "kind")]

    for goal in goals:
        for job in (Job("acme/shop"), None):
            made = fill(goal, folder, job).body
            assert made | {"context": 0} == goal | {"context": 0}
            assert made.get("context", {}).items() >= goal.get("context", {}).items()


def test_a_large_repository_makes_no_goal_that_is_too_large(repository: Repository) -> None:
    many = {f"pkg/{'d' * 90}{number:04}/module_{number}.py": "" for number in range(1500)}
    folder = repository({**many, "pyproject.toml": "# " + "\n" * 70_000, "setup.cfg": '"' * 40_000, "src/z.py": ""})

    last = next(reversed(many))
    context = {"failure_log": "e" * 200_000, "failing_tests": [f"{last}::test_x"]}

    made = fill({"goal": "Fix setup.cfg.", "allowed_files": ["src/*.py"], "context": context}, folder, None)

    assert len(codec.dumps(made.body)) <= MAX_GOAL_BYTES
    assert made.filled["files"][:3] == ["setup.cfg", last, "src/z.py"]
    assert 100 < len(made.filled["files"]) < 1500
    assert "files_complete" not in made.filled
    assert len(codec.dumps(filled(folder, "src/z.py").filled["files"])) < 16_000


def test_a_listing_is_whole_only_if_it_has_every_file_of_the_commit(repository: Repository) -> None:
    folder = repository()

    assert filled(folder, "src/*.py", files=[*FILES, "src/uncommitted.py"]).filled["files_complete"] is True
    assert "files_complete" not in filled(folder, "src/*.py", files=list(FILES)[1:]).filled
    assert "files_complete" not in filled(folder, "src/cart.py", files=[], files_complete=False).filled


def test_files_that_a_log_names_on_another_machine_come_first_in_a_listing(repository: Repository) -> None:
    folder = repository()
    log = 'File "/home/runner/work/shop/shop/src/price.py", line 3, in total\n./tests/test_cart.py:7: AssertionError'

    made = filled(folder, "**/*.py", failure_log=log)

    assert made.filled["files"][:2] == ["src/price.py", "tests/test_cart.py"]


def test_what_globs_leave_out_is_told(repository: Repository) -> None:
    folder = repository(
        {**FILES, "tests/conftest.py": "", "tests/setup.cfg": "", "tests/secrets/a.py": "", "tests/AGENTS.md": ""}
    )

    notes = filled(folder, "tests/**", "tests/setup.cfg").notes

    assert [note for note in notes if "leave out" in note] == [
        "Globs leave out files that configure checks: tests/conftest.py. Name such a file to allow it.",
        "Globs leave out files that instruct agents: tests/AGENTS.md. Name such a file to allow it.",
        "Globs leave out files that no step may touch: tests/secrets/a.py.",
    ]
    assert not [note for note in filled(folder, "src/**", "tests/conftest.py").notes if "leave out" in note]


def test_a_checkout_of_50_000_files_is_filled_in_and_planned_within_2_seconds(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main")
    names = [f"{('src', 'lib')[number % 2]}/part{number % 200}/m{number}.py" for number in range(50_000)]
    blob = "blob\nmark :1\ndata 6\nx = 1\n\n"
    head = "commit refs/heads/main\ncommitter a <a@a> 0 +0000\ndata 1\na\n"
    listed = "".join(f"M 100644 :1 {name}\n" for name in (*names, "tests/test_a.py", "pyproject.toml"))
    told = ["git", "fast-import", "--quiet"]
    subprocess.run(told, cwd=tmp_path, input=f"{blob}{head}{listed}", text=True, check=True, capture_output=True)
    asked = {"goal": "Fix failing test tests/test_a.py::test_x", "allowed_files": ["src/**"]}
    took = []
    for _ in range(3):
        began = time.process_time()
        made = fill({**asked, "context": {"test_command": "pytest"}}, tmp_path, None)
        preview(Goal.model_validate(made.body), Settings())
        took.append(time.process_time() - began)

    assert made.filled["files"][0] == "tests/test_a.py"
    assert "files_complete" not in made.filled
    assert min(took) < 2


def test_the_variables_of_a_job_are_read(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"sha": "b" * 40}}}))
    pushed = {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_SHA": "a" * 40, "GITHUB_REF": "refs/heads/main"}
    pulled = pushed | {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_EVENT_PATH": str(event)}
    merged = {"CI_PROJECT_PATH": "acme/sub/shop", "CI_COMMIT_SHA": "a" * 40}

    assert job_of({"CI": "true", "GITHUB_SHA": ""}) is None
    assert job_of(pushed | {"GITHUB_EVENT_PATH": str(event)}) == Job("acme/shop", "a" * 40)
    assert job_of(pulled) == Job("acme/shop", "a" * 40, "b" * 40)
    assert job_of(merged) == Job("acme/sub/shop", "a" * 40)
    assert job_of(merged | {"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "b" * 40}) == Job("acme/sub/shop", "a" * 40, "b" * 40)
    for text in ("{", "[]", '{"pull_request": {"head": {"sha": "--all"}}}'):
        event.write_text(text)
        assert job_of(pulled) == Job("acme/shop", "a" * 40)
    event.unlink()
    assert job_of(pulled) == Job("acme/shop", "a" * 40)


@pytest.mark.parametrize(
    ("more", "files", "says"),
    [
        ({}, {"src/cart.py": "x = 1\n"}, "controllers need ruff check and pyright, unless"),
        ({"checks": ["mypy"]}, {"src/cart.py": "x = 1\n"}, None),
        ({}, FILES, None),
    ],
)
def test_what_checks_a_gap_report_of_a_project_that_configures_nothing_is_told(
    repository: Repository, more: dict[str, Any], files: dict[str, str], says: str | None
) -> None:
    gap = {"description": "Quality check failed: ruff", "category": "quality", "evidence": "src/cart.py:1:1: F401"}
    body = {
        "kind": "gap_report",
        "allowed_files": ["src/cart.py"],
        "gap_report": {"gap_report": {"gaps": [gap]}, **more},
    }

    notes = " ".join(fill(body, repository(files), None).notes)

    assert (says in notes) if says else "controllers need" not in notes


def test_sentence_language_and_names_of_a_report_give_way_to_the_checkout(repository: Repository) -> None:
    files = {"Cargo.toml": '[package]\nname = "shop"\n', "build.rs": "", "src/lib.rs": "", "tests/test_cart.py": ""}
    context = {"language": "python", "failing_tests": ["/builds/shop/tests/test_cart.py::test_a", "Tests.py::test_b"]}
    body = {"goal": "Fix 2 failing tests", "allowed_files": ["src/**"], "context": context}

    made = fill(body, repository(files), None, {"goal", "language"})

    assert made.body["goal"] == "Fix failing test tests/test_cart.py::test_a"
    assert made.body["context"]["language"] == "rust"
    assert made.body["context"]["failing_tests"] == ["tests/test_cart.py::test_a"]
    assert [note for note in made.notes if "Tests.py::test_b" in note]


def test_what_a_goal_says_of_its_language_stands(repository: Repository) -> None:
    made = filled(repository({"src/lib.rs": ""}), "src/**", language="python")

    assert made.body["context"]["language"] == "python"


def test_a_gap_report_brings_what_modules_say_of_themselves(repository: Repository) -> None:
    documents = {"modules/parser/CONTRACT.md": "# Parser\nIt parses.\n", "modules/parser/SPEC.md": "`core.py`\n"}
    others = {"modules/shop/SPEC.md": "A shop.\n", "modules/parser/parts/core.py": "", "modules/shop/cart.py": ""}
    folder = repository({**documents, **others})
    gap = {"category": "roadmap", "description": "Create modules/parser/parts/lexer.py"}
    goal = {"kind": "gap_report", "allowed_files": ["modules/parser/**"], "gap_report": {"gap_report": {"gaps": [gap]}}}

    made = fill({"goal": "x", **goal}, folder, None)

    assert made.body["context"]["documents"] == documents
    assert made.summary["documents"] == list(documents)
    planned = gap_report.draft(Goal.model_validate(made.body), CATALOGUE, Setting())
    assert isinstance(planned, Draft), planned
    assert "modules/parser/CONTRACT.md: It parses." in (planned.steps[0].guidance or "")
    assert "documents" not in fill({"goal": "x", "allowed_files": ["modules/parser/**"]}, folder, None).filled
    own = fill({"goal": "x", **goal, "context": {"documents": {"a.md": "A"}}}, folder, None)
    assert own.body["context"]["documents"] == {"a.md": "A"}
