"""When a breaker trips, lets a step through and closes: the decision alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.features.breakers import breaker
from tasks.features.breakers.breaker import GRACE_MS, Breaker, Evidence, Failure, Seen, Terms, What
from tasks.plan.changeset import CountedFailure, ProbeNews

NOW = 1_800_000_000_000
TERMS = Terms()
WHOSE = ("default", "acme/shop")


def failure(plan: str, signature: str = "a", at: int = NOW, *, verifies: bool = True) -> Failure:
    return Failure(at, CountedFailure(signature, verifies, plan, "s", 1, "TEST_REGRESSION", "it broke"))


def tripped(**more: object) -> Breaker:
    found = breaker.find_trip([failure(f"p{n}") for n in range(5)], WHOSE, NOW, TERMS)
    assert found is not None
    return replace(found, told=True, **more)  # type: ignore[arg-type]


FAILURES = st.lists(
    st.builds(
        failure,
        st.sampled_from([f"p{n}" for n in range(8)]),
        st.sampled_from(["", "a", "a", "a", "b"]),
        st.integers(NOW - 2_000_000, NOW),
    ),
    max_size=40,
)


@given(FAILURES, st.integers(1, 8), st.sampled_from([0.3, 0.6, 1.0]))
def test_it_trips_where_enough_failures_of_enough_plans_are_alike_and_never_else(
    failures: list[Failure], plans: int, share: float
) -> None:
    found = breaker.find_trip(failures, WHOSE, NOW, Terms(plans, share))

    recent = [each.about for each in failures if each.at > NOW - TERMS.window_ms]
    alike = {sign: [each for each in recent if each.signature == sign] for sign in ("a", "b")}
    enough = [
        sign
        for sign, of in alike.items()
        if len({each.plan_id for each in of}) >= plans and len(of) >= share * len(recent) and of
    ]
    if found:
        assert found.signature in enough
    elif share > 0.5:
        assert not enough


def again(plan: str, at: int) -> list[Failure]:
    """Two failures of one step of a plan."""
    return [failure(plan, at=at), Failure(at + 1, failure(plan).about._replace(attempt=2))]


BEFORE, LATER = NOW - 10_000, NOW - 5_000
PLANS = [f"p{n}" for n in range(5)]
ONCE = [failure(plan, at=LATER) for plan in PLANS]
TWICE = [each for plan in PLANS for each in again(plan, LATER)]
OTHERS = [failure(f"q{n}", "b", LATER) for n in range(7)]


@pytest.mark.parametrize(
    ("failures", "healed", "state", "succeeded", "trips"),
    [
        (ONCE, 0, "ACTIVE", [], True),
        (ONCE, 1, "ACTIVE", [], False),  # one that was healed is none
        (TWICE, 1, "ACTIVE", [], False),
        (ONCE, 0, "ACTIVE", [BEFORE] * 3, True),
        (ONCE, 0, "ACTIVE", [BEFORE] * 4, False),  # while the next attempts may heal them, all successes weigh
        (ONCE, 0, "ACTIVE", [NOW - TERMS.window_ms] * 4, True),  # but those of earlier times
        (ONCE, 0, "FAILED", [BEFORE] * 40, True),  # nothing will heal these
        (ONCE, 0, "FAILED", [NOW] * 4, False),
        (TWICE, 0, "ACTIVE", [BEFORE] * 40, True),
        (TWICE, 0, "ACTIVE", [NOW] * 6, True),
        (TWICE, 0, "ACTIVE", [NOW] * 7, False),
        ([*TWICE, *OTHERS], 0, "ACTIVE", [BEFORE] * 40, False),  # as do failures that are unlike these
    ],
)
def test_what_was_healed_and_what_succeeded_weighs_against_a_trip(
    failures: list[Failure], healed: int, state: str, succeeded: list[int], trips: bool
) -> None:
    states = {each.step: state for each in failures} | {(plan, "s"): "DONE" for plan in PLANS[:healed]}
    seen = Seen(None, False, failures, evidence=Evidence(states, succeeded))

    assert (breaker.decide(seen, WHOSE, NOW, TERMS).what is What.TRIP) is trips


def test_nothing_else_is_read_unless_enough_plans_failed_alike() -> None:
    assert breaker.decide(Seen(None, False, ONCE[1:]), WHOSE, NOW, TERMS).what is What.NOTHING
    assert breaker.decide(Seen(None, False, ONCE), WHOSE, NOW, TERMS).what is What.WEIGH


@given(st.lists(st.sampled_from(["done", "failed", "silent", "unproved"]), max_size=12))
def test_every_probe_is_followed_and_the_first_proof_closes(ends: list[str]) -> None:
    """Whatever its probes come to, a breaker waits, lets the next one through, and closes by the first that proves."""
    now, known = NOW, tripped()
    for end in ends:
        waits = breaker.decide(Seen(known, True, []), WHOSE, now, TERMS)
        assert waits.what in (What.WAIT, What.GIVE)
        if waits.what is What.WAIT:
            assert waits.look == known.due > now
        now = max(now, known.due)
        assert breaker.decide(Seen(known, True, []), WHOSE, now, TERMS).what is What.GIVE
        given_to = breaker.give(known, ["p1", "p9"], now)
        assert given_to is not None
        assert given_to.token != known.token
        news = None
        if end == "silent":
            now += GRACE_MS
        else:
            now += 1000
            what = "failed" if end == "failed" else "done"
            news = now, ProbeNews(given_to.token, what, end == "done", given_to.plan, "s", 2)
        found = breaker.decide(Seen(given_to, True, [], news), WHOSE, now, TERMS)
        if end == "done":
            assert found.what is What.CLOSE
            return
        assert found.what is What.CHANGE
        assert found.breaker is not None
        assert (found.breaker.token, found.breaker.id) == ("", known.id)
        assert found.breaker.due == (now + TERMS.probe_ms if end == "failed" else now)
        known = found.breaker


def test_a_breaker_whose_pause_a_person_lifted_is_forgotten() -> None:
    assert breaker.decide(Seen(tripped(), False, []), WHOSE, NOW, TERMS).what is What.FORGET


@pytest.mark.parametrize(
    ("more", "now", "next_probe"),
    [
        ({}, NOW, NOW + TERMS.probe_ms),
        ({}, NOW + TERMS.probe_ms + 5, NOW + TERMS.probe_ms + 5),  # no plan had a step to start
        ({"plan": "p1", "token": "t.1", "given": NOW}, NOW, None),
        ({"closing": True}, NOW, None),
    ],
)
def test_the_time_of_the_next_probe_is_known_unless_one_is_out(
    more: dict[str, object], now: int, next_probe: int | None
) -> None:
    assert breaker.next_probe(tripped(**more), now) == next_probe


def test_a_breaker_that_was_turned_off_closes_and_says_so() -> None:
    found = breaker.decide(Seen(tripped(), True, []), WHOSE, NOW, Terms(0))

    assert (found.what, found.why) == (What.CLOSE, "breakers are turned off")


def test_plans_have_their_turns_those_that_failed_alike_first() -> None:
    known, order = tripped(), []
    for _ in range(6):
        given_to = breaker.give(known, ["p1", "p3", "x"], NOW)
        assert given_to is not None
        order.append(given_to.plan)
        news = NOW, ProbeNews(given_to.token, "failed", False, given_to.plan, "s", 2)
        found = breaker.decide(Seen(given_to, True, [], news), WHOSE, NOW, TERMS).breaker
        assert found is not None
        known = found

    assert order == ["p1", "p3", "x", "p1", "p3", "x"]
    assert breaker.give(known, [], NOW) is None


@pytest.mark.parametrize("more", [{}, {"plan": "p1", "token": "t.1", "given": 7, "tried": ("p1",)}])
def test_a_record_is_read_as_it_was_written_with_what_a_newer_version_added(more: dict[str, object]) -> None:
    known = tripped(unknown={"newer": 1}, **more)

    assert Breaker.decode(known.encode()) == known
