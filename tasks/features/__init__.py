"""Lists all features of plans, in the order of their functions in each table of the pipeline."""

from __future__ import annotations

from tasks.features import (
    answers,
    baseline,
    breakers,
    cannot_verify,
    check_changed,
    collecting,
    created_files,
    delivery,
    discarded_files,
    duplicates,
    estimates,
    failed_changes,
    flaky_tests,
    goal_texts,
    gone_files,
    handing_back,
    instructions,
    integrity,
    judging,
    mending,
    missing_modules,
    needs,
    nothing_done,
    outcome_memory,
    overlaps,
    places,
    proof,
    review,
    riskier_files,
    setting_up,
    split_changes,
    tool_calls,
    unverified,
)
from tasks.policy import advice, expansion
from tasks.policy.pipeline import Feature, build

FEATURES: tuple[Feature, ...] = tuple(
    each.FEATURE
    for each in (
        *(
            instructions,
            answers,
            created_files,
            gone_files,
            setting_up,
            judging,  # before the delivery, which comes last
            delivery,
            handing_back,
            cannot_verify,
            estimates,
            needs,
            discarded_files,
            places,
            riskier_files,
            split_changes,
            unverified,
            proof,
            collecting,
        ),
        *(expansion, flaky_tests, review, baseline, nothing_done, goal_texts),
        *(
            failed_changes,
            missing_modules,
            mending,
            duplicates,
            overlaps,
            breakers,
            advice,
            check_changed,
            integrity,
            outcome_memory,
            tool_calls,
        ),
    )
)

build(FEATURES)
