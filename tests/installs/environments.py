"""Builds the wheel, installs it outside of the checkout, and runs it with nothing but PATH and HOME."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tests.installs.groups import ROOT
from worker.host.code_version import commit
from worker.host.terminal import line

CONSTRAINTS = ROOT / ".ci/constraints.txt"
SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # git and coreutils
PATIENCE_S = 60.0
COMMIT = commit()  # when this begins
NOT_OURS = frozenset({"VIRTUAL_ENV", "PYTHONPATH", "UV_NO_SYNC"})  # of the developer who runs this

T = TypeVar("T")


class Broken(Exception):
    """The product does not work where nothing else is; the message says what was seen."""


def check(holds: object, sentence: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(sentence)


def wait_for(probe: Callable[[], T], sentence: str) -> T:
    """Return the first true answer of `probe`; raises Broken after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := probe()):
        check(time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {sentence}")
        time.sleep(0.05)
    return answer


def build(folder: Path) -> Path:
    """Build wheel and sdist from the checkout; returns the wheel, which the sdist builds alike."""
    _install("uv", "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    _install("uv", "build", "--quiet", "--sdist", "--out-dir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    _install("uv", "build", "--quiet", "--wheel", "--out-dir", folder / "again", sdist)
    (again,) = (folder / "again").glob("*.whl")
    ours, theirs = _content(wheel), _content(again)
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    check(not differing, f"the sdist builds another wheel: {differing[:5]} differ")
    with tarfile.open(sdist) as archive:
        line(f"The sdist ({len(archive.getnames())} files) builds the same wheel of {len(ours)} files.")
    return wheel


class Environment:
    """A virtual environment outside of the checkout, with a home and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.work, self.bin = folder / "home", folder / "work", folder / "venv/bin"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        _install(sys.executable, "-m", "venv", folder / "venv", "--without-pip")

    def install(self, wheel: Path, extra: str = "") -> None:
        """Install the wheel by uv, with the versions that were tested."""
        self.add(*_asked(wheel, extra))

    def add(self, *words: str) -> None:
        """Install something by uv."""
        _install("uv", "pip", "install", "--quiet", "--python", self.bin / "python", *words)

    def install_by_pip(self, wheel: Path, extra: str = "") -> None:
        """Install the wheel by the pip that comes with Python."""
        self.add_pip()
        _install(self.bin / "python", "-m", "pip", "install", "--quiet", *_asked(wheel, extra))

    def add_pip(self) -> None:
        """Add the pip that comes with Python, and with the image of `compose.yaml`."""
        _install(self.bin / "python", "-m", "ensurepip", "--default-pip")

    def installed(self) -> set[str]:
        """Return the names and versions of all packages, without the installer."""
        source = "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()))"
        return {each for each in self.python("-c", source).split() if not each.startswith(("pip==", "setuptools=="))}

    def environment(self, **more: str) -> dict[str, str]:
        """Return what the product sees of this machine."""
        return {"PATH": f"{self.bin}:{SYSTEM}", "HOME": str(self.home), **more}

    def python(self, *words: str | Path, stdin: str = "", **variables: str) -> str:
        """Run the environment's Python; returns what it prints, raises Broken unless it ends with 0."""
        code, printed, errors = self.run("python", "-P", *words, stdin=stdin, **variables)
        check(code == 0, f"{self.folder.name}: python {words[0]} ended with {code}:\n{printed}{errors}")
        return printed

    def planner(self, *words: str, **variables: str) -> str:
        """Run a command; returns what it prints, raises Broken unless it ends with 0."""
        code, printed, errors = self.run("planner", *words, **variables)
        check(code == 0, f"{self.folder.name}: planner {' '.join(words)} ended with {code}:\n{printed}{errors}")
        return printed

    def run(self, program: str, *words: str | Path, stdin: str = "", **variables: str) -> tuple[int, str, str]:
        """Run a program of the environment; returns its exit code, output and errors."""
        command = [self.bin / program, *words]
        clean = self.environment(**variables)
        done = subprocess.run(
            command, cwd=self.work, env=clean, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S * 2
        )
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def running(self, *words: str, **variables: str) -> Iterator[None]:
        """Run a command until the block ends; it must be there still, and end on SIGTERM with 0."""
        path = self.folder / f"{words[0]}.log"
        with path.open("w") as log:
            process = subprocess.Popen(
                [self.bin / "planner", *words],
                cwd=self.work,
                env=self.environment(**variables),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
            ended_by_itself = process.poll()
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE_S)
            check(ended_by_itself is None and code == 0, f"planner {words[0]} ended with {code}")
        except (Broken, OSError, subprocess.TimeoutExpired) as error:
            raise Broken(f"{self.folder.name}: {error}\nplanner {words[0]} printed:\n{path.read_text()}") from error
        finally:  # after a failure too its own processes end with it
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()
            process.wait()


def shell(command: str, folder: Path, environment: Environment, **variables: str) -> None:
    """Run a line of a Dockerfile where the programs of the environment come first."""
    seen = _ours() | {"PATH": f"{environment.bin}:{os.environ['PATH']}"} | variables
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=seen, capture_output=True, text=True)
    check(done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _asked(wheel: Path, extra: str) -> tuple[str, ...]:
    brackets = f"[{extra}]" if extra else ""
    return f"planner-worker{brackets} @ {wheel.as_uri()}", "--constraint", str(CONSTRAINTS)


def _install(*words: str | Path) -> None:
    """Run an installer, with the caches, registries and certificates of the developer who runs this."""
    done = subprocess.run(words, cwd="/", env=_ours(), capture_output=True, text=True)
    check(
        done.returncode == 0, f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )


def _ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in NOT_OURS}


def _content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
