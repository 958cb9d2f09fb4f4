"""The limit on open files of a process, raised as far as the system permits."""

from __future__ import annotations

import resource

from tasks.base.errors import PlannerError


class TooFewFiles(PlannerError):
    """This process may not open the files that it needs."""


def raise_limit(wanted: int) -> int:
    """Raise the limit on open files to `wanted` if possible. Return the resulting limit, at most `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)


def require(wanted: int) -> None:
    """Raise the limit on open files to `wanted`. Raises TooFewFiles if the system does not permit that."""
    if (most := raise_limit(wanted)) < wanted:
        raise TooFewFiles(
            f"This process may open {most} files and needs {wanted}: raise its limit (ulimit -Hn {wanted}; LimitNOFILE "
            "of systemd; ulimits.nofile of a container; docs/workers.md)."
        )
