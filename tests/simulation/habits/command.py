"""`python -m tests.simulation habits`: play goals to repositories with habits, without and with parts of the memory.

Without --parts the goals are played without any part, with each that the planner has, and with all of these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from time import monotonic

from schemas import codec
from tests.simulation.habits import report
from tests.simulation.habits.course import Played, play_history
from tests.simulation.habits.history import RECIPES
from tests.simulation.habits.parts import PARTS
from tests.simulation.habits.tried import TRIED

NONE = "without"


def main(words: Sequence[str]) -> None:
    """Print the table, or with --json everything about each plan."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation habits", description=__doc__)
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds are played and counted together")
    parser.add_argument(
        "--parts", help=f"a list with commas of {', '.join(PARTS)}; not in the planner: {', '.join(TRIED)}"
    )
    parser.add_argument("--template", choices=list(RECIPES), help="only goals of this template")
    parser.add_argument("--templates", action="store_true", help="also one table a row, by the templates of goals")
    parser.add_argument("--json", action="store_true", help="every plan")
    given = parser.parse_args(words)
    chosen: tuple[str, ...] | None = tuple(filter(None, given.parts.split(","))) if given.parts is not None else None
    known = {**PARTS, **TRIED}
    if unknown := [name for name in chosen or () if name not in known]:
        parser.error(f"there is no part {unknown[0]}; there are: {', '.join(known)}")
    runs: dict[str, list[Played]] = {}
    for parts in _choices(chosen):
        name = " + ".join(parts) or NONE
        for seed in range(given.seed, given.seed + given.seeds):
            progress = _progress(f"{name}, seed {seed}", given.plans)
            made = [known[part]() for part in parts]
            runs.setdefault(name, []).extend(play_history(made, seed, given.plans, progress, given.template))
    if given.json:
        sys.stdout.write(codec.dumps([report.as_json(name, played) for name, played in runs.items()]).decode() + "\n")
        return
    sys.stdout.write(report.table(runs) + "\n")
    if given.templates:
        for name, played in runs.items():
            sys.stdout.write(f"\n## {name}\n\n{report.by_template(played)}\n")


def _choices(chosen: tuple[str, ...] | None) -> list[tuple[str, ...]]:
    """List the choices of parts to play: those that were named against none, else each, and all."""
    if chosen is not None:
        return list(dict.fromkeys([(), chosen]))
    return list(dict.fromkeys([(), *((name,) for name in PARTS), tuple(PARTS)]))


def _progress(title: str, count: int) -> Callable[[int], None]:
    began = monotonic()

    def tell(done: int) -> None:
        if done % 100 == 0 or done == count:
            sys.stderr.write(f"{title}: {done} of {count} goals, {monotonic() - began:.0f} s\n")

    return tell
