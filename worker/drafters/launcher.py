"""Becomes an agent's command: its limits, its variables, its files, and then itself. Run as a script, nothing imported.

A program of its own, since Python must not run between fork and exec in a process with threads.
"""

from __future__ import annotations

import json
import os
import resource
import sys


def main(path: str) -> None:
    """Read the order at `path`, remove it, and become what it names."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs more than all the rest
        order = json.load(file)
    os.unlink(path)  # noqa: PTH108
    for number, name in ((1, "stdout"), (2, "stderr")):
        made = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(made, number)
        os.close(made)
    if order["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (order["memory"], order["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - the operator's command, no shell
    except OSError as error:
        sys.exit(f"{order['argv'][0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1])
