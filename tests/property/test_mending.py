"""Whatever a plan is like, a mend may touch only what the plan patched before, at its risk or above."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.base import RiskLevel
from tasks.rules.risk import is_below
from tests.support.plans import Running, a_check, a_report, a_step, fail_and_rest

FILES = tuple(f"{folder}/{name}.py" for folder in ("src", "tests") for name in "abcd")
PATCHES = st.lists(
    st.tuples(
        st.sets(st.integers(0, 8), max_size=3),  # the steps that it waits for, of those before it
        st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True),
        st.sampled_from(RiskLevel),
        st.booleans(),  # whether it succeeds
    ),
    min_size=1,
    max_size=9,
)


@given(PATCHES, st.sets(st.integers(0, 8), max_size=4), st.lists(st.sampled_from((*FILES, "/etc/passwd")), max_size=3))
def test_a_mend_is_within_what_was_patched(
    patches: list[tuple[set[int], list[str], RiskLevel, bool]], waits: set[int], named: list[str]
) -> None:
    steps = [
        a_step(f"s-{n}", *(f"s-{each}" for each in sorted(after) if each < n), files=files, risk=risk, retries=0)
        for n, (after, files, risk, _) in enumerate(patches)
    ]
    awaited = [f"s-{each}" for each in sorted(waits) if each < len(patches)]
    plan = Running(*steps, a_check("t", *awaited))
    while live := [step for step in plan.active if step != "t"]:
        for step in live:
            if patches[int(step.removeprefix("s-"))][3]:
                plan.report(a_report(step))
            else:
                fail_and_rest(plan, step, "TEST_TIMEOUT")
    if "t" not in plan.active:
        return
    fail_and_rest(plan, "t", "TEST_REGRESSION", affected_files=named)

    landed = {step.step_id: step for step in steps if plan.states.get(step.step_id) == "DONE"}
    assert ("t-mend" in plan.states) == any(step in landed for step in awaited)
    if "t-mend" in plan.states:
        mend = plan.facts["t-mend"]
        files, risk = mend["allowed_files"], RiskLevel(mend["risk_level"])
        assert files
        assert len(files) <= 50  # `limits.max_files` is how many it may change
        nearest = [landed[step] for step in awaited if step in landed]
        assert not any(is_below(risk, step.risk_level) for step in nearest)
        for path in files:  # what patched it before was no riskier
            owners = [step for step in landed.values() if path in step.allowed_files]
            assert any(not is_below(risk, step.risk_level) for step in owners)
