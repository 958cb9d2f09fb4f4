"""Python's collector of garbage, in processes that live long."""

from __future__ import annotations

import gc

COLLECT_SELDOM = 50_000, 20, 20  # thresholds


def collect_seldom() -> None:
    """Exclude all present objects, such as imported modules, from Python's garbage collection, and make it rarer.

    Reference counting still frees the objects of a batch or a request.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_SELDOM)
