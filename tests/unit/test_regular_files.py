"""Files that somebody else names or wrote are read without a link, without waiting, and within a size."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schemas import codec
from worker.cli.commands.app import app
from worker.host import regular_files
from worker.settings import tools_file
from worker.sources import git, inbox

SECRET = "a secret of somebody else"


def linked(place: Path) -> None:
    place.symlink_to(place.parent / "secret")


def dangling(place: Path) -> None:
    place.symlink_to("nowhere")


def pipe(place: Path) -> None:
    os.mkfifo(place)


def folder(place: Path) -> None:
    place.mkdir()


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def listener(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place))


KINDS = (linked, dangling, pipe, folder, device, listener)
Kind = Callable[[Path], None]


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: Kind, is_absolute: bool) -> None:
    kind(tmp_path / "it")

    with pytest.raises(OSError, match=r"symbolic link|no regular file"):
        regular_files.read(tmp_path / "it" if is_absolute else Path("it"), 1000)


def test_a_relative_path_goes_through_no_link_and_an_absolute_one_through_the_operators(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/it").write_text("here")
    (tmp_path / "link").symlink_to("real")

    assert regular_files.read(Path("real/it"), 4) == b"here"
    assert regular_files.read(Path("real/../real/it"), 4) == b"here"
    assert regular_files.read(tmp_path / "link/it", 4) == b"here"
    with pytest.raises(OSError, match="'link' is a symbolic link"):
        regular_files.read(Path("link/it"), 4)
    with pytest.raises(OSError, match="'link' is a symbolic link"):
        regular_files.read_below(tmp_path, "link/it", 4)


def test_a_file_is_read_within_its_limit_only(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"x" * 11)

    with pytest.raises(OSError, match="it has 11 bytes, and the limit is 10"):
        regular_files.read(Path("it"), 10)
    assert regular_files.read_below(tmp_path, "it", 10, cut=True) == b"x" * 10
    with pytest.raises(OSError, match="the limit is 10"):
        regular_files.read(Path("/proc/self/maps"), 10)  # whose size the system does not tell


@pytest.mark.parametrize("kind", KINDS)
def test_an_inbox_has_regular_files_only(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox/a.md").write_text("A wish")
    kind(tmp_path / "inbox/b.md")

    with pytest.raises(inbox.UnreadableInbox, match=r"inbox/b\.md: "):
        inbox.read(Path("inbox"))


def test_an_inbox_is_no_link_and_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "inbox").symlink_to("real")
    with pytest.raises(inbox.UnreadableInbox, match="symbolic link"):
        inbox.read(Path("inbox"))

    monkeypatch.setattr(inbox, "MAX_FILES", 1)
    for name in "ab":
        (tmp_path / f"real/{name}.md").write_text(name)
    with pytest.raises(inbox.UnreadableInbox, match="real has 2 wishes, and the limit is 1"):
        inbox.read(Path("real"))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        *product([["it"], ["--from-junit", "it"], ["--from-sarif", "it"], ["--roadmap", "it"]], KINDS),
        *product([["-g", "x", "--inbox", "it"]], [kind for kind in KINDS if kind is not folder]),
    ],
)
def test_submit_reads_regular_files_only(tmp_path: Path, kind: Kind, words: list[str]) -> None:
    kind(tmp_path / "it")

    result = CliRunner().invoke(app, ["submit", *words, "--json"])

    assert result.exit_code == 2
    assert codec.loads(result.stdout)["code"] in ("unreadable_file", "invalid_inbox")
    assert SECRET not in result.stdout


def test_documents_that_lie_below_a_link_are_not_told(tmp_path: Path) -> None:
    for name in ("repo/a", "repo/b", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside/SPEC.md").write_text(SECRET)
    (tmp_path / "repo/docs").symlink_to("../outside")
    (tmp_path / "repo/SPEC.md").symlink_to("../secret")
    os.mkfifo(tmp_path / "repo/a/SPEC.md")
    (tmp_path / "repo/b/SPEC.md").write_text("Ours")

    told = git.read_documents(tmp_path / "repo", ("docs/SPEC.md", "SPEC.md", "a/SPEC.md", "b/SPEC.md"))

    assert dict(told) == {"b/SPEC.md": "Ours"}


def test_a_tools_file_may_be_a_link_of_the_operators_but_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text("")
    (tmp_path / "mounted").symlink_to("tools.toml")
    os.mkfifo(tmp_path / "pipe")

    assert tools_file.catalogue(tmp_path / "mounted")
    with pytest.raises(tools_file.WrongTools, match="no regular file"):
        tools_file.catalogue(tmp_path / "pipe")
