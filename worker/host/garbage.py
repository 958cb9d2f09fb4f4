"""Python's collector of garbage, in processes that live long."""

from __future__ import annotations

import gc

COLLECT_SELDOM = 50_000, 20, 20  # thresholds


def collect_seldom() -> None:
    """Keep what is there, such as imported modules, and look for garbage seldom.

    What a batch or a request makes is freed with it.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_SELDOM)
