"""Python's collector of garbage, in processes that live long."""

from __future__ import annotations

import gc

COLLECT_SELDOM = 50_000, 20, 20  # thresholds


def collect_seldom() -> None:
    """Keep all present objects, such as imported modules, and look for garbage seldom.

    The objects of a batch or a request are freed with it.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_SELDOM)
