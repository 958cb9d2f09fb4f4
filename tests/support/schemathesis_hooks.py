"""What schemathesis does in the tests of the gateway: no request waits for long, for nothing comes meanwhile."""

from __future__ import annotations

from typing import Any

import schemathesis

LONGEST_S = 0.05


@schemathesis.hook
def before_call(_: Any, case: Any, __: Any) -> None:
    """Shorten the waits of requests that are right; what is wrong with others stays."""
    for part in (case.query, case.body if case.path.endswith(":claim") else None):
        for name in ("wait", "wait_s"):
            if isinstance(part, dict) and (name in part or part is case.body) and _is_wait(part.get(name, 30)):
                part[name] = LONGEST_S


def _is_wait(value: Any) -> bool:
    return type(value) in (int, float) and LONGEST_S < value <= 30
