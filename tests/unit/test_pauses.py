"""A repository in which nothing can be done pauses alone; trouble of the host or of the provider pauses everything."""

from __future__ import annotations

from worker.controller.pauses import FIRST_S, UNVERIFIED_S, Pause, Pauses
from worker.controller.readiness import CannotWork, NotVerifiable, ProviderTrouble, StepTrouble

AWAY = CannotWork("the remote is away")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_of_several_pauses_alone_longer_each_time_until_a_step_of_it_could_be_done() -> None:
    clock = Clock()
    pauses = Pauses(2, clock)
    assert [pauses.count("till", AWAY) for _ in range(5)] == [None] * 4 + [Pause(FIRST_S, "till")]
    assert str(pauses.reason("till")) == "the remote is away"
    assert pauses.reason("shop") is None
    assert pauses.count("shop", AWAY) is None

    clock.now = FIRST_S
    assert pauses.reason("till") is None
    pauses.count("shop", None)
    assert pauses.count("till", AWAY) == Pause(2 * FIRST_S, "till")
    pauses.count("till", None)
    assert pauses.reason("till") is None
    assert pauses.count("till", AWAY) is None


def test_trouble_in_several_or_in_all_or_of_the_provider_is_the_hosts() -> None:
    several = Pauses(3, Clock())
    assert [several.count(name, AWAY) for name in ("a", "b", "a", "c", "a")] == [None] * 4 + [Pause(FIRST_S)]

    all_of_them = Pauses(2, Clock())
    found = [all_of_them.count(name, AWAY) for name in ("a",) * 5 + ("b",) * 5]
    assert [pause for pause in found if pause] == [Pause(FIRST_S, "a"), Pause(FIRST_S)]

    assert Pauses(9, Clock()).count("a", ProviderTrouble("a rate limit")) == Pause(FIRST_S)


def test_who_cannot_verify_a_step_leaves_it_to_others_for_longer() -> None:
    pauses = Pauses(9, Clock())

    found = [pauses.count("a", NotVerifiable("no pytest")) for _ in range(4)]

    assert found == [Pause(UNVERIFIED_S), Pause(UNVERIFIED_S), Pause(4 * FIRST_S), Pause(8 * FIRST_S)]


def test_steps_that_name_what_nobody_has_pause_nothing() -> None:
    pauses = Pauses(1, Clock())

    assert [pauses.count("none", StepTrouble("no such repository")) for _ in range(9)] == [None] * 9
    assert [pauses.count("shop", AWAY) for _ in range(5)] == [None] * 4 + [Pause(FIRST_S)]
