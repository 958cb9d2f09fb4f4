"""Tests that are held out: known by their digest, and read as plain files of a clone."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from worker.controller import holdout
from worker.controller.holdout import Holdouts, WrongHoldout, digest_of

TEST = b"def test_sums():\n    assert 2 + 2 == 4\n"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Keep a folder of one test, and a link out of it, behind what nobody can read."""
    tests = tmp_path / "kept/first/tests"
    tests.mkdir(parents=True)
    (tests / "test_sums.py").write_bytes(TEST)
    (tmp_path / "secret").write_text("secret")
    (tests / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "kept/a-pipe")
    (tmp_path / "kept/dangling").symlink_to(tmp_path / "nowhere")
    return tmp_path / "kept"


def test_a_folder_is_known_by_the_paths_and_contents_of_its_files(kept: Path) -> None:
    before = digest_of(kept / "first")
    (kept / "first").rename(kept / "other")
    renamed = digest_of(kept / "other")
    (kept / "other/tests/test_sums.py").rename(kept / "other/tests/test_more.py")

    assert before == renamed
    assert digest_of(kept / "other") != before


def test_tests_to_which_a_link_leads_are_not_kept(kept: Path) -> None:
    """Agents can reach what lies elsewhere: only the folder itself is hidden from them."""
    (kept / "first").rename(kept.parent / "elsewhere")
    (kept / "second").symlink_to(kept.parent / "elsewhere")

    with pytest.raises(WrongHoldout, match="no tests"):
        Holdouts(kept).read(digest_of(kept.parent / "elsewhere"))


def test_what_is_read_are_its_regular_files_and_no_link_is_followed(kept: Path) -> None:
    assert Holdouts(kept).read(digest_of(kept / "first")) == {b"tests/test_sums.py": (b"100644", TEST)}


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_is_known_by_its_bytes_and_puts_nothing_outside_of_the_clone(kind: str, kept: Path) -> None:
    good, bad = (archive(kept / f"{name}.{kind}", path) for name, path in (("good", "tests/a.py"), ("bad", "../a.py")))

    assert Holdouts(kept).read(good) == {b"tests/a.py": (b"100644", TEST)}
    with pytest.raises(WrongHoldout, match="no path in a clone"):
        Holdouts(kept).read(bad)


def test_an_archive_that_is_broken_or_empty_is_told(kept: Path) -> None:
    archive(kept / "whole.zip", "tests/a.py")
    broken = (kept / "whole.zip").read_bytes().replace(TEST, TEST[::-1])
    (kept / "broken.zip").write_bytes(broken)
    (kept / "text").write_text("no archive")
    with zipfile.ZipFile(kept / "empty.zip", "w"):
        pass

    for name, why in {"broken.zip": "cannot be read", "text": "cannot be read", "empty.zip": "are no files"}.items():
        with pytest.raises(WrongHoldout, match=why):
            Holdouts(kept).read(digest_of(kept / name))


def test_all_files_of_a_folder_or_an_archive_have_a_bound(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (kept / f"first/tests/test_{name}.py").write_bytes(b"#" * 10_000)
    with zipfile.ZipFile(kept / "first.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("a", "b"):
            packed.writestr(f"tests/test_{name}.py", b"#" * 10_000)
    digest = digest_of(kept / "first.zip")
    monkeypatch.setattr(holdout, "MAX_BYTES", 15_000)

    with pytest.raises(OSError, match="more than"):
        digest_of(kept / "first")
    with pytest.raises(WrongHoldout, match="more than"):
        Holdouts(kept).read(digest)


def test_tests_that_were_read_are_not_read_again(kept: Path) -> None:
    tests, digest = Holdouts(kept), digest_of(kept / "first")
    before = tests.read(digest)
    (kept / "first/tests/test_sums.py").write_text("something else")

    assert tests.read(digest) == before


def test_tests_that_are_not_there_are_told_by_their_digest(kept: Path) -> None:
    digest = f"sha256:{0:064x}"

    with pytest.raises(WrongHoldout, match=f"no tests {digest}"):
        Holdouts(kept).read(digest)


def archive(path: Path, name: str) -> str:
    """Make an archive of one file, and return its digest."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(name, TEST)
    else:
        with tarfile.open(path, "w") as packed_:
            member = tarfile.TarInfo(name)
            member.size = len(TEST)
            packed_.addfile(member, io.BytesIO(TEST))
    return digest_of(path)
