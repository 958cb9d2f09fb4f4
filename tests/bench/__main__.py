"""`python -m tests.bench`: what this machine does, beside anchors measured in the same run.

It measures the code of the current directory, so that two versions can be compared by alternating runs; see
docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from schemas import codec
from tests.bench import Measurement, measure
from tests.bench.servers import EMBEDDED, UnusableServer
from tests.bench.site import Sizes
from worker.host.terminal import Terminal

DESCRIPTION = """\
Measure this machine: our outcomes per second, and their anchors in the same run. The anchors are Celery's no-op tasks,
a bare Lua loop, and a bare loop that writes what our outcomes write. Nothing has to run: it starts a server of its own,
and its workers. A run takes two to four minutes; each figure is the median of all runs, with the least and the most.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the figures; returns the exit code: 2 for a server that cannot be used."""
    asked = _parser().parse_args(arguments)
    sizes = Sizes(plans=asked.plans, steps=asked.steps)
    measurement = Measurement(
        asked.server,
        asked.preload,
        asked.pool,
        sizes,
        asked.runs,
        is_brief=asked.brief,
        is_idle=asked.idle,
        is_of_doors=asked.doors,
        appendfsync=asked.appendfsync,
    )
    try:
        report = measure(measurement, Terminal(stderr=True).print)
    except UnusableServer as unusable:
        sys.stderr.write(f"{unusable}\n")
        return 2
    sys.stdout.write(codec.pretty(report.as_json()).decode() if asked.json else report.as_table() + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=DESCRIPTION)
    parser.add_argument("--plans", type=_at_least(10), default=1000, help="plans in flight (1000)")
    parser.add_argument("--steps", type=_at_least(2), default=10, help="steps of each (10)")
    parser.add_argument("--pool", choices=("prefork", "solo", "threads"), default="solo", help="Celery's pool (solo)")
    parser.add_argument(
        "--server", default=EMBEDDED, help="`embedded`, a program, or the URL of an empty server, which is emptied"
    )
    parser.add_argument("--preload", type=Path, help="a library to preload into the server, such as an allocator")
    parser.add_argument("--appendfsync", choices=("always", "everysec", "no"), help="when the server writes its file")
    parser.add_argument("--runs", type=_at_least(1), default=1, help="how often everything is measured (1)")
    parser.add_argument("--brief", action="store_true", help="only the goals and outcomes of many plans")
    parser.add_argument("--idle", action="store_true", help="only a worker to which nothing comes, and its latency")
    parser.add_argument("--doors", action="store_true", help="only goals, claims and outcomes over HTTP")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
