"""`python -m tests.simulation`: play goals to a simulated fleet, and print how many of them get done.

`python -m tests.simulation habits` plays goals one after the other to repositories that remember (`habits`).

Without a share the plans are played under four conditions: no mistakes; mistakes alone; mistakes with repositories
that are red before, flaky tests and broken hosts; cheating agents, which do in a third of the attempts that are to make
failing tests pass, or to close findings, what a row of `tests/cheats` does that was held back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import monotonic

from schemas import codec
from tests.simulation import report
from tests.simulation.fleet import Conditions, run_plans
from tests.simulation.goals import make_mission
from tests.simulation.habits import command

SHARES = ("mistakes", "red_before", "flaky", "broken_hosts", "liars", "cheats")
USUAL = (
    Conditions(),
    Conditions(mistakes=0.3),
    Conditions(mistakes=0.3, red_before=0.2, flaky=0.1, broken_hosts=0.1),
    Conditions(cheats=1 / 3),
)


def main() -> None:
    """Print the tables, or with --json everything about each plan."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="every plan, and the numbers of those that a rule ended")
    parser.add_argument("--only", help="play only goals whose kind and template hold this text")
    for name in SHARES:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, help="a share from 0 to 1")
    given = parser.parse_args()
    shares = {name: share for name in SHARES if (share := getattr(given, name)) is not None}
    settings = (Conditions(**shares),) if shares else USUAL
    missions = [make_mission(number, given.seed) for number in range(given.plans)]
    if given.only:
        missions = [each for each in missions if given.only in f"{each.kind} {each.template}"]
    told = []
    for conditions in settings:
        results = run_plans(missions, conditions, given.seed, _progress(report.describe(conditions), len(missions)))
        if given.json:
            told.append(report.as_json(conditions, results))
        else:
            title = report.describe(conditions)
            sys.stdout.write(f"## {title}\n\n{report.table(results)}\n\n{report.causes(results)}\n\n")
            if conditions.cheats:
                sys.stdout.write(f"{report.cheats(results)}\n\n")
    if given.json:
        sys.stdout.write(codec.dumps(told).decode() + "\n")


def _progress(title: str, count: int) -> Callable[[int], None]:
    began = monotonic()

    def tell(done: int) -> None:
        if done % 50 == 0 or done == count:
            sys.stderr.write(f"{title}: {done} of {count} plans, {monotonic() - began:.0f} s\n")

    return tell


if __name__ == "__main__":
    if sys.argv[1:2] == ["habits"]:
        command.main(sys.argv[2:])
    else:
        main()
