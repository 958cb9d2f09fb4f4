"""The features of the policy, in the order in which each of their tables is walked."""

from __future__ import annotations

from tasks.features import (
    answers,
    baseline,
    breakers,
    delivery,
    failed_changes,
    flaky_tests,
    goal_texts,
    handing_back,
    mending,
    nothing_done,
    overlaps,
    unverified,
)
from tasks.policy import expansion
from tasks.policy.pipeline import build

FEATURES = (
    answers.FEATURE,
    delivery.FEATURE,
    handing_back.FEATURE,
    unverified.FEATURE,
    expansion.FEATURE,
    flaky_tests.FEATURE,
    baseline.FEATURE,
    nothing_done.FEATURE,
    goal_texts.FEATURE,
    failed_changes.FEATURE,
    mending.FEATURE,
    overlaps.FEATURE,
    breakers.FEATURE,
)

build(FEATURES)
