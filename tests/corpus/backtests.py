"""What other rules would have done to the recorded plans.

`uv run python -m tests.corpus.backtests` prints the table of docs/policies.md; with the file of a policy, each plan
that comes out otherwise under that one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.base.policy import Policy
from tasks.base.policy_text import read_policy
from tasks.record.backtest import Backtested, Tally, Verdict, backtest_recorded
from tasks.record.creation import CannotReplay
from tasks.record.recorded_plan import RecordedPlan
from tests.corpus import record
from worker.render.backtest import WORDS, minutes

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
POLICIES = ("policy-strict.toml", "policy-patient.toml")


def backtests(policy: Policy) -> Iterator[tuple[str, Backtested | None]]:
    """Yield the scene of each recorded plan, and what `policy` would have done to it; None where no log can say."""
    for plan in record.read():
        if (export := record.export(plan)) is not None:
            try:
                yield plan["scene"]["name"], backtest_recorded(RecordedPlan.read(export), policy)
            except CannotReplay:
                yield plan["scene"]["name"], None


def tallies() -> dict[str, Tally]:
    """Sum up what the policies of docs/examples would have done."""
    found = {name: Tally() for name in POLICIES}
    for name, tally in found.items():
        for _, one in backtests(read_policy((EXAMPLES / name).read_bytes())):
            if one:
                tally.add(one)
            else:
                tally.unread += 1
    return found


def table(found: Mapping[str, Tally]) -> str:
    """Write sums as a table of Markdown, a column for each policy."""
    sums = found.values()
    rows = [["", *(f"`{name}`" for name in found)], ["---"] * (1 + len(found))]
    rows.append(["plans", *(f"{each.plans:,}" for each in sums)])
    rows.append(["tokens really used", *(f"{each.tokens:,}" for each in sums)])
    rows.append(["not backtested", *(f"{each.unread:,}" for each in sums)])
    rows += [[WORDS[verdict], *(f"{each.verdicts[verdict]:,}" for each in sums)] for verdict in Verdict]
    rows.append(["tokens saved", *(f"{each.saved.tokens:,}" for each in sums)])
    rows.append(["time saved", *(minutes(each.saved.ms) for each in sums)])
    rows.append(["successes lost", *(f"{each.saved.successes_lost:,}" for each in sums)])
    rows.append(["done steps lost", *(f"{each.saved.steps_lost:,}" for each in sums)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def main() -> None:
    """Print the table, or the plans that come out otherwise under the policy of a file."""
    if not sys.argv[1:]:
        sys.stdout.write(table(tallies()))
        return
    for scene, found in backtests(read_policy(Path(sys.argv[1]).read_bytes())):
        if found is None:
            sys.stdout.write(f"{scene}: not backtested\n")
        elif found.verdict is not Verdict.SAME:
            would = f"{found.would.state} {found.would.rule or ''}" if found.would else "unknown"
            sys.stdout.write(f"{scene}: {found.verdict} at line {found.line}: {would}\n")


if __name__ == "__main__":
    main()
