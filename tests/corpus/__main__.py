"""`python -m tests.corpus`: hold the recorded plans against today's, or record them anew with `--write`."""

from __future__ import annotations

import argparse
import sys

from tests.corpus import record


def main() -> int:
    """Return 1 where a recorded plan comes out otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="record the plans anew, after a rule was changed on purpose"
    )
    parser.add_argument("--all", action="store_true", help="print every plan that differs; the first ten unless given")
    arguments = parser.parse_args()
    if arguments.write:
        count = record.write(record.make())
        sys.stdout.write(f"{count} plans, {record.FILE.stat().st_size / 1e6:.2f} MB: {record.FILE}\n")
        return 0
    differing = [found for old in record.read() if (found := record.difference(old, record.again(old)))]
    for told in differing if arguments.all else differing[:10]:
        sys.stdout.write(told + "\n")
    sys.stdout.write(f"{len(differing)} plans differ\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
