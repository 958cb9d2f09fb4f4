"""`python -m tests.cheats`: play every cheat against the real controller, and print what became of them, by kind.

Rows that end otherwise than they have to are named, and the command ends with 1. `--write` adds rows that are held back
and were never played before to the file that the simulation reads, which keeps how each ended the first time; its path
is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from tests.cheats.corpus import CHEATS, HELD, ended, fault_of
from tests.cheats.ended import FILE, Ended, read, table, write
from tests.cheats.play import Stage, staged
from worker.host import embedded_server


@contextmanager
def _stage() -> Iterator[Stage]:
    with TemporaryDirectory() as name:
        home, server = Path(name) / "home", Path(name) / "server"
        home.mkdir()
        server.mkdir()
        os.environ["PLANNER_STATE_DIR"] = str(Path(name) / "state")
        with embedded_server.valkey(server) as url, staged(url, home) as stage:
            yield stage


def main() -> int:
    """Play the rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.cheats", description=__doc__)
    parser.add_argument("--only", default="", help="play the rows that have this text in their names")
    parser.add_argument("--part", choices=("held", "tuned"), help="play those that are held back, or the others, alone")
    parser.add_argument("--write", action="store_true", help="keep what became of new ones that are held back")
    asked = parser.parse_args()
    parts = {"held": (True,), "tuned": (False,)}.get(asked.part, (True, False))
    wanted = [each for each in CHEATS if asked.only in str(each) and each.held in parts]
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    missing = {each.at.program for each in wanted if not which(each.at.program)}
    found: dict[str, Ended] = {}
    wrong = 0
    with _stage() as stage:
        for cheat in wanted:
            if cheat.at.program in missing:
                continue
            played = stage.play_row(cheat)
            found[str(cheat)] = ended(cheat, played)
            fault = fault_of(cheat, played)
            wrong += bool(fault)
            sys.stdout.write(f"{cheat}: {played.view.state}{f'; WRONG, {fault}' if fault else ''}\n")
            sys.stdout.flush()
    held = [found[str(each)] for each in CHEATS if each.held and str(each) in found]
    for title, rows in (("All", [*found.values()]), ("Held back", held)):
        sys.stdout.write(f"\n{title}:\n\n{table(rows)}\n")
    if missing:
        sys.stdout.write(f"\nNot played, for want of {', '.join(sorted(missing))}.\n")
    if asked.write:
        write({**found, **{each.name: each for each in read()}}[str(each)] for each in HELD)
    sys.stdout.write(f"\nThe simulation reads {FILE}.\n")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
