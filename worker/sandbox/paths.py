"""The paths that a program may reach: the system, the installations on PATH, and grants; never the planner's own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

READ, WRITE, DEVICE = "r", "rw", "dev"  # as the launcher knows them

# Programs, libraries and the configuration of the system. Not /home, /root, /tmp, /var, /srv, /run, /mnt, /media.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap"),
    *("/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/var/lib/ca-certificates"),
)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - what locks and semaphores of programs are made in
PASSWORDS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d")
PROGRAM_FOLDERS = frozenset({"bin", "sbin"})
BESIDE_ALL = frozenset({"shims", ".bin"})  # of pyenv, asdf, mise and npm: their programs read neighbouring files
BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "include")


class WrongPath(ValueError):
    """A path cannot be granted."""


@dataclass(frozen=True, slots=True)
class PathGrant:
    """A path that the operator lets a program reach."""

    path: Path
    writable: bool = False

    @classmethod
    def parse(cls, text: str) -> PathGrant:
        """Return the grant in `PATH` or `PATH:rw` (`~` is the home).

        Raises WrongPath for a relative or missing path.
        """
        name, colon, rights = text.rpartition(":")
        if not colon or rights not in ("r", "rw"):
            name, rights = text, "r"
        path = Path(name).expanduser()
        if not path.is_absolute():
            raise WrongPath(f"{text}: write an absolute path, or one that begins with ~/")
        if not path.exists():
            raise WrongPath(f"{text}: there is no such path")
        return cls(path, rights == "rw")


def grants(value: object) -> object:
    """Return the grants in a text with commas between them; a value of another type is returned unchanged."""
    if not isinstance(value, str):
        return value
    return tuple(PathGrant.parse(part.strip()) for part in value.split(",") if part.strip())


def grants_of(command: Sequence[str]) -> tuple[PathGrant, ...]:
    """Return grants for the files in the words of an operator's command, such as the script of an interpreter."""
    return tuple(PathGrant(Path(word)) for word in command if word.startswith("/") and Path(word).is_file())


def rules(
    argv: Sequence[str], search: str, granted: Iterable[PathGrant], hidden: Iterable[Path]
) -> list[tuple[str, str]]:
    """Return the paths that `argv` may reach, as pairs of path and right.

    `search` is the PATH of the program. The `granted` paths are added, and paths in `hidden` are left out. An
    installation below a writable folder is writable, such as `node_modules` of the clone.
    """
    granted = tuple(granted)
    secret = [os.path.realpath(path) for path in (*map(str, hidden), *PASSWORDS)]
    writable = [os.path.realpath(grant.path) for grant in granted if grant.writable]
    program = shutil.which(argv[0], path=search) if argv else None
    programs = (*installations(search), *([Path(program)] if program else ()))
    wanted = [(Path(path), READ) for path in SYSTEM]
    wanted += [(path, READ) for path in programs if not any(_is_in(os.path.realpath(path), one) for one in writable)]
    wanted += [(grant.path, WRITE if grant.writable else READ) for grant in granted]
    found = {f"/dev/{name}": DEVICE for name in DEVICES} | {SHARED_MEMORY: WRITE}
    for place, kind in wanted:
        for path in visible_parts(os.path.realpath(place), secret):
            found[path] = WRITE if kind == WRITE else found.get(path, kind)
    return list(found.items())


def visible_parts(place: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield `place` if it contains nothing `hidden`, else its largest parts that contain nothing hidden.

    The parts are necessary because a rule can only grant rights. Paths are absolute and real. They are plain strings:
    each run checks hundreds.
    """
    if any(_is_in(place, one) for one in hidden):
        return
    if not any(_is_in(one, place) for one in hidden):
        yield place
        return
    try:
        with os.scandir(place) as entries:
            inside = sorted(entry.path for entry in entries if not entry.is_symlink())  # their targets have own rules
    except OSError:
        return
    for path in inside:
        yield from visible_parts(path, hidden)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def installations(search: str) -> Iterator[Path]:
    """Yield the installations of the programs on the path `search`, and this Python with its packages."""
    yield from (Path(sys.prefix), Path(sys.base_prefix))
    for name in filter(os.path.isabs, search.split(os.pathsep)):
        place = Path(os.path.realpath(name))
        if _is_too_wide(place):
            continue
        yield place
        if (place.parent / "pyvenv.cfg").is_file():
            yield from _environment(place.parent)
        elif place.name in BESIDE_ALL and not _is_too_wide(place.parent):
            yield place.parent
        elif place.name in PROGRAM_FOLDERS:
            yield from (place.parent / beside for beside in BESIDE_PROGRAMS)


def _environment(place: Path) -> Iterator[Path]:
    """Yield a virtual environment, and the Python that it was made from."""
    yield place
    python = Path(os.path.realpath(place / "bin" / "python"))
    if python.parent.name == "bin" and not _is_too_wide(python.parent.parent):
        yield python.parent.parent


def _is_too_wide(place: Path) -> bool:
    """Return whether a folder is the root or contains our home, so that it has more than an installation."""
    return Path(os.path.realpath(Path.home())).is_relative_to(place) or place == Path(place.anchor)
