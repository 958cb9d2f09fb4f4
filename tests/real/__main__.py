"""`python -m tests.real`: play fixes of real projects to the end, with an agent that knows them.

python -m tests.real REPOSITORY FIX_COMMIT LANGUAGE
python -m tests.real --list tests/real/fixes.toml --clones DIR

For each the state before is made in a fresh clone: the parent of FIX_COMMIT with the tests of the fix. Its tests are
run, and their report goes to a planner of its own by the command of docs/ci.md. The agent knows the sources of the fix,
and changes what its step may change. Exit code 0 if all are COMPLETED and right, or, with an agent that does not do its
work, if none is COMPLETED.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from schemas import codec
from tests.real.agent import FIX, KINDS
from tests.real.fix import CannotPlay, Fix, read_fixes
from tests.real.play import TOKENS, Behaviour, play_fix
from tests.real.result import Result, table


def main(words: list[str]) -> int:
    """Play what the words ask for; returns the exit code."""
    given = _parser().parse_args(words)
    behaviour = Behaviour(given.agent, given.wrong, given.tokens)
    try:
        fixes = _fixes(given)
    except CannotPlay as error:
        sys.stderr.write(f"{error}\n")
        return 2
    results = []
    for number, fix in enumerate(fixes, 1):
        keep = given.keep / f"{number:02}-{fix.title.replace('/', '-').replace(' ', '-')}" if given.keep else None
        result = _play(fix, behaviour, keep, given.timeout)
        results.append(result)
        (sys.stderr if given.list or given.json else sys.stdout).write(result.lines() + "\n")
    if given.json:
        sys.stdout.write(codec.pretty([each.as_json() for each in results]).decode())
    elif given.list:
        sys.stdout.write(table(results) + "\n")
    return 0 if all(_is_as_wanted(each, behaviour) for each in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.real", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    one = parser.add_argument_group("one fix")
    one.add_argument("repository", nargs="?", type=Path, help="the folder of a git repository, bare or not")
    one.add_argument("commit", nargs="?", help="the commit of the fix, which changes sources and tests")
    one.add_argument("language", nargs="?", help="python, javascript, typescript, go, rust or cpp")
    one.add_argument("--files", "-f", nargs="+", default=(), help="globs of the goal; else the folders of the fix")
    one.add_argument("--python", default=sys.executable, help="the Python of its environment, or a version for uv")
    one.add_argument("--setup", help="a line of a shell that sets the project up; an empty one leaves all as it is")
    one.add_argument("--test", help="a line of a shell that runs its tests, and writes a JUnit report to $REPORT")
    one.add_argument("--lock-files", nargs="+", default=(), help="files on which the setup of each clone depends")
    one.add_argument("--results", nargs="+", default=(), help="what the setup makes in each clone: node_modules")
    many = parser.add_argument_group("several fixes")
    many.add_argument("--list", type=Path, help="a TOML file with a table [[fix]] for each")
    many.add_argument("--clones", type=Path, help="the folder in which the repositories of the list lie")
    many.add_argument("--only", default="", help="of the list those whose title has this text")
    agent = parser.add_argument_group("the agent")
    agent.add_argument("--agent", choices=KINDS, default=FIX, help="what it does about a step that patches")
    agent.add_argument("--wrong", type=int, default=0, help="so many wrong attempts come first")
    agent.add_argument("--tokens", type=int, default=TOKENS, help="of a change; a run that only reads needs a third")
    parser.add_argument("--timeout", default="20m", help="how long a plan may take")
    parser.add_argument("--keep", type=Path, help="a folder that keeps checkout, logs and attempts of each fix")
    parser.add_argument("--json", action="store_true", help="print all of each fix")
    return parser


def _fixes(given: argparse.Namespace) -> tuple[Fix, ...]:
    if given.list:
        fixes = tuple(fix for fix in read_fixes(given.list, given.clones) if given.only in fix.title)
        if not fixes:
            raise CannotPlay(f"{given.list} has no fix whose title has {given.only!r}.")
        return fixes
    if not (given.repository and given.commit and given.language):
        raise CannotPlay("Name a repository, the commit of a fix and a language, or a --list. --help says more.")
    fix = Fix(
        given.repository,
        given.commit,
        given.language,
        files=tuple(given.files),
        python=given.python,
        setup=given.setup,
        test=given.test,
        lock_files=tuple(given.lock_files),
        results=tuple(given.results),
    )
    return (fix,)


def _play(fix: Fix, behaviour: Behaviour, keep: Path | None, timeout: str) -> Result:
    try:
        return play_fix(fix, behaviour, keep, timeout)
    except (CannotPlay, OSError, subprocess.SubprocessError) as error:
        return Result(fix.title, fix.language, fix.files, fix.commit, reasons=tuple(str(error).splitlines()))


def _is_as_wanted(result: Result, behaviour: Behaviour) -> bool:
    if result.right is None:
        return False
    return (result.state == "COMPLETED" and result.right) if behaviour.kind == FIX else result.state != "COMPLETED"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing which it has started outlives it
    sys.exit(main(sys.argv[1:]))
