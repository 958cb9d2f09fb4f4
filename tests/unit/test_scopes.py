"""What stands for a plan of the orders that are wider than one."""

from __future__ import annotations

import pytest

from schemas.command import Command
from schemas.times import rfc3339
from tasks.handlers import bulk_commands
from tasks.handlers.bulk_commands import find_standing, lift, record, scope_of
from tests.support.surroundings import a_wide_order

NOW = 1_800_000_000_000


def stood(*orders: Command, now: int = NOW) -> dict[bytes, bytes]:
    """What is kept of these orders, given one after the other."""
    records: dict[bytes, bytes] = {b"commands": b"%d" % len(orders)}
    for order in orders:
        records |= {name.encode(): raw for name, raw in record(order, now, records).items()}
    return records


def found(records: dict[bytes, bytes], tenant: str = "acme", repo: str | None = "acme/shop", **when: int) -> str | None:
    order = find_standing(records, tenant, repo, when.get("created", NOW), when.get("now", NOW))
    return order and f"{order.command} {order.scope}"


@pytest.mark.parametrize(
    ("scope", "target", "others"),
    [
        ("all", None, []),
        ("tenant", "acme", [("globex", "acme/shop")]),
        ("repository", "acme/shop", [("acme", "acme/site"), ("acme", None)]),
    ],
)
def test_an_order_stands_for_the_plans_of_its_scope_alone(
    scope: str, target: str | None, others: list[tuple[str, str | None]]
) -> None:
    records = stood(a_wide_order("pause", scope, target))

    assert found(records) == f"pause {scope_of(a_wide_order('pause', scope, target))}"
    assert [found(records, tenant, repo) for tenant, repo in others] == [None] * len(others)


def test_where_nothing_was_ordered_nothing_stands() -> None:
    assert found({}) is None
    assert found({b"commands": b"3"}) is None


def test_what_ends_a_plan_goes_before_what_pauses_it_and_the_widest_first() -> None:
    pause, tenants = a_wide_order("pause", "all", None), a_wide_order("halt")
    shop = a_wide_order("halt", "repository", "acme/shop")

    assert found(stood(pause, shop)) == "halt repository:acme/shop"
    assert found(stood(pause, shop, tenants)) == "halt tenant:acme"


def test_an_order_with_an_end_is_over_then_and_swept_away_with_the_next() -> None:
    records = stood(a_wide_order("pause", until=rfc3339(NOW + 1000)))

    assert found(records, now=NOW + 999) == "pause tenant:acme"
    assert found(records, now=NOW + 1000) is None
    assert bulk_commands.find_over(records, NOW + 999) == []
    assert bulk_commands.find_over(records, NOW + 1000) == [b"pause tenant:acme"]


def test_a_cancel_is_for_plans_that_were_there_and_a_halt_for_those_to_come_too() -> None:
    cancel, halt = stood(a_wide_order("cancel")), stood(a_wide_order("halt"))

    assert found(cancel, created=NOW) == "cancel tenant:acme"
    assert found(cancel, created=NOW + 1, now=NOW + 1) is None
    assert found(halt, created=NOW + 10**9, now=NOW + 10**9) == "halt tenant:acme"


def test_a_cancel_is_not_forgotten_while_no_worker_runs_and_the_next_one_takes_its_place() -> None:
    week = 7 * 86_400_000
    records = stood(a_wide_order("cancel"))
    assert found(records, now=NOW + week) == "cancel tenant:acme"
    assert bulk_commands.find_over(records, NOW + week) == []

    later = record(a_wide_order("cancel", command_id="c-2"), NOW + week, records)

    assert [name.encode() for name in later] == [name for name in records if name != b"commands"]


def test_an_order_that_is_obeyed_again_from_its_beginning_reaches_no_further() -> None:
    cancel = a_wide_order("cancel")
    records = stood(cancel)

    assert record(cancel, NOW + 60_000, records) == {}
    assert record(a_wide_order("cancel", command_id="c-2"), NOW + 60_000, records) != {}


def test_a_resume_lifts_pause_and_halt_of_its_own_scope() -> None:
    assert lift(a_wide_order("resume"), {}) == ["pause tenant:acme", "halt tenant:acme"]
    assert lift(a_wide_order("resume", "all", None), {}) == ["pause all", "halt all"]


def test_what_stands_says_who_ordered_it_and_why() -> None:
    order = find_standing(stood(a_wide_order("pause")), "acme", None, NOW, NOW)

    assert order is not None
    assert (order.actor, order.reason, order.command_id, order.until) == ("ada", "why", "c-1", 0)
