"""Damage to one plan of a commit, on a real server: nothing of that plan is written, and its neighbours are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from schemas.stored import Attempt
from tasks.plan.changeset import (
    Changeset,
    ClaimChange,
    CountedFailure,
    Dispatch,
    HistoryChange,
    KeptChange,
    ProbeNews,
    RecordedAttempt,
    UsedTokens,
)
from tasks.plan.end_sum import EndSum
from tests.support.memory_store import EPOCH_MS
from tests.support.plans import PARTITION, a_plan, a_step, plan_id
from tests.support.real_store import RETENTION_S, Real
from worker.store import clients, functions
from worker.store.commit_parts import MAX_DIGITS, NONE, PARTS, Part
from worker.store.plans import PlanStore, Write

ENTRY = re.compile(rb"^\d{13}-\d+ ")
TERMS = 3 + 7 + 8  # words of a call before its first plan: its name, its keys, its terms
PLANS = [plan_id(number) for number in range(3)]
BEFORE, DAMAGED, BEHIND = range(3)
RESTING = 3  # another change of the damaged plan
NO_NUMBER = ["", "x", "1.5", "1e3", "0x10", "+1", "nan", "\u0661", "1\x002", "--1"]
TOO_LARGE = st.integers(2**53 + 1, 10**40).map(str)

Call = list[list[Any]]  # of each plan its head and its arguments
Damage = tuple[Callable[[list[Any], Part, Any], None], Any]  # what is done to a part of a plan, and with what


@pytest.fixture(scope="module")
def real(server_url: str) -> Iterator[Real]:
    with clients.connect(server_url) as client:
        yield Real(client)


def whole_change(plan: str, version: int = 1) -> Changeset:
    """A change that has every part, of which two plans share no key but those of the partition."""
    attempt = Attempt(2, "l-2", "default", [], 10, 1, EPOCH_MS, EPOCH_MS, entry="1-1")
    return Changeset(
        plan,
        version,
        EPOCH_MS,
        changed=True,
        fields={"live": b"{}", "quota": plan.encode()},
        statuses={"a": b"[0]", "b": b"[1]"},
        specs={"a": b"[]", "b": b"[]"},
        ready_add={"c": 3, "d": 4},
        ready_remove=["a", "b"],
        ended={"a": attempt, "b": attempt},
        cancelled={"b"},
        dispatches=[Dispatch("c", attempt, b"{}"), Dispatch("d", attempt, b"{}")],
        wake=EPOCH_MS,
        todo_pop=1,
        todo_push=[("a", 0), ("b", 1)],
        events=[("dev.planner.step.done.v1", b"{}"), ("dev.planner.plan.completed.v1", b"{}")],
        log=b"{}",
        ends=True,
        tenant="acme",
        guards={"a": 0, "b": 0},
        actions={"c": "pause", "d": "continue"},
        call_limits={"c": 10, "d": 12},
        taken={f"tenant:{plan}": 5, f"repo:{plan}": -5},
        rests_on={f"repo:{plan}": 0},
        history=[HistoryChange(plan, "n", 0, 1), HistoryChange(plan, "old", "", "")],
        kept=[KeptChange(plan, "one", b"1", 2, 60), KeptChange(plan, "two", b"", 2, 60, plan)],
        claims=[ClaimChange(plan, "src/a.py", "0", plan), ClaimChange(plan, "src/b.py", "0", plan)],
        keeps=[(plan, "src/a.py")],
        used=[UsedTokens("patch:a", 500), UsedTokens("read_only:a", 0)],
        memory=[RecordedAttempt(f"acme:{plan}:f", b"[0]"), RecordedAttempt(f"acme:{plan}:f", b"")],
        lists=["state:COMPLETED", f"repo:{plan}"],
        sum=EndSum("acme", plan, "completed=1"),
        failures=[(f"acme {plan}", CountedFailure("s", False, plan, "a", 1, "UNKNOWN", "it failed"))],
        probe=(f"acme {plan}", ProbeNews("t", "done", True, plan, "a", 1)),
    )


def lay_out(real: Real, *, damaged: bool = True) -> tuple[list[Any], Call]:
    """A call for three plans, and for another change of the one that is to be damaged."""
    real.client.flushdb()
    real.commits = type(real.commits)(real.client, PARTITION, None)
    for plan in PLANS:
        (born,) = a_plan(a_step("a"), plan=plan)
        assert real.commit([Write(born)]) == ["ok"]
    changes = [whole_change(PLANS[BEFORE]), whole_change(PLANS[BEHIND])]
    if damaged:
        changes.insert(DAMAGED, whole_change(PLANS[DAMAGED]))
        changes.append(whole_change(PLANS[DAMAGED], 2))
    store = PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits)
    call = [*store.commit_call([Write(change, [(PARTITION.outcomes, b"1-1")]) for change in changes])]
    plans, at = [], TERMS
    for size in map(int, call[TERMS - 1].split()):
        plans.append(call[at : at + size])
        at += size
    return call[: TERMS - 1], plans


def send(real: Real, terms: list[Any], plans: Call) -> list[str]:
    sizes = " ".join(str(len(plan)) for plan in plans)
    _, results = functions.call(real.client, *terms, sizes, *[word for plan in plans for word in plan])
    return [result.decode() for result in results]


def written(real: Real) -> Any:
    """What is stored, without the names of entries and without what tells when."""
    return {key: stored(value) for key, value in real.everything().items() if not key.endswith((":timers", ":due"))}


def stored(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: ENTRY.sub(b"", text) for field, text in value.items()}
    if isinstance(value, tuple):  # a stream with its groups
        return [fields for _, fields in value[0]]
    return value


@pytest.fixture(scope="module")
def neighbours(real: Real) -> Any:
    """What is stored where the neighbours alone are committed."""
    terms, plans = lay_out(real, damaged=False)
    assert [result.split()[0] for result in send(real, terms, plans)] == ["4", "5"]
    return written(real)


def check(real: Real, neighbours: Any, damage: Callable[[list[Any]], None]) -> None:
    """Damage one plan: it is refused with what rests on it, and stays as it was, and its neighbours are committed."""
    terms, plans = lay_out(real)
    damage(plans[DAMAGED])

    results = send(real, terms, plans)

    assert [result.split()[0] for result in results] == ["4", "error", "5", "stale"], results
    assert "ERR planner commit: " in results[DAMAGED]
    assert written(real) == neighbours


def place_of(plan: list[Any], part: Part) -> tuple[int, int]:
    """Where the arguments of a part begin, and how many those are."""
    at = 1
    for named in plan[0].split()[4:]:
        name, _, count = named.partition(":")
        if name == part.name:
            return at, int(count)
        at += int(count)
    raise AssertionError(f"no {part.name}")


def cut(plan: list[Any], part: Part, left: float) -> None:
    at, count = place_of(plan, part)
    del plan[at + int(left * count) : at + count]


def lose(plan: list[Any], part: Part, place: float) -> None:
    at, count = place_of(plan, part)
    del plan[at + int(place * count)]


def lose_and_count(plan: list[Any], part: Part, place: float) -> None:
    at, count = place_of(plan, part)
    del plan[at + int(place * count)]
    plan[0] = plan[0].replace(f" {part.name}:{count}", f" {part.name}:{count - 1}")


def claim(plan: list[Any], part: Part, rows: int) -> None:
    _, count = place_of(plan, part)
    plan[0] = plan[0].replace(f" {part.name}:{count}", f" {part.name}:{count + rows * part.size}")


def rename(plan: list[Any], part: Part, name: str) -> None:
    plan[0] = plan[0].replace(f" {part.name}:", f" {name}:")


def replace(plan: list[Any], part: Part, changed: tuple[int, str]) -> None:
    at, _ = place_of(plan, part)
    words = str(plan[at]).split(" ")
    words[changed[0]] = changed[1]
    plan[at] = " ".join(words)


def lengthen(plan: list[Any], part: Part, text: str) -> None:
    at, _ = place_of(plan, part)
    plan[at] = f"{plan[at]}{text}"


def wrong(kind: str) -> st.SearchStrategy[str]:
    """What is no word of a kind."""
    if kind == "word":
        return st.just("")
    signed = [] if kind == "maybe" else [NONE] if kind == "integer" else [NONE, "-1"]
    return TOO_LARGE | st.sampled_from([*NO_NUMBER, *signed])


def damages(part: Part) -> st.SearchStrategy[Damage]:
    """Every kind of damage that a part can take."""
    place = st.floats(0, 0.99)
    unknown = st.from_regex(r"[a-z]{1,9}|[A-Z_]{1,9}", fullmatch=True).filter(lambda name: name not in PARTS)
    kinds: list[st.SearchStrategy[Damage]] = [
        st.tuples(st.just(cut), place),
        st.tuples(st.just(lose), place),
        st.tuples(st.just(claim), st.sampled_from([-1, 1, 10**6, 2**53])),
        st.tuples(st.just(rename), unknown | st.just(f"{part.name}:0 {part.name}")),
    ]
    if part.size > 1:
        kinds.append(st.tuples(st.just(lose_and_count), place))
    if part.words:
        kinds.append(st.tuples(st.just(lengthen), st.sampled_from([" ", " more", "\n"])))
        typed = [st.tuples(st.just(place), wrong(kind)) for place, kind in enumerate(part.kinds)]
        kinds.append(st.tuples(st.just(replace), st.one_of(typed)))
    return st.one_of(kinds)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_a_damaged_part_refuses_its_plan_alone_before_anything_of_it_is_written(
    real: Real, neighbours: Any, part: Part
) -> None:
    @settings(max_examples=10, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(damages(part))
    def damaged(damage: Damage) -> None:
        how, more = damage
        check(real, neighbours, lambda plan: how(plan, part, more))

    damaged()


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("word", ["", "-1 -1", str(2**53), "9" * 40])
def test_a_damaged_head_refuses_its_plan_alone(real: Real, neighbours: Any, place: int, word: str) -> None:
    def damage(plan: list[Any]) -> None:
        words = plan[0].split(" ")
        words[place] = word
        plan[0] = " ".join(words)

    check(real, neighbours, damage)


def test_a_call_whose_plans_do_not_add_up_writes_nothing(real: Real) -> None:
    terms, plans = lay_out(real)
    before = real.everything()
    words = [word for plan in plans for word in plan]
    sizes = [len(plan) for plan in plans]
    for told in (sizes[:-1], [*sizes, 1], [sizes[0] + 1, *sizes[1:]], [0, *sizes], [2**53]):
        with pytest.raises(ResponseError, match="do not add up"):
            functions.call(real.client, *terms, " ".join(map(str, told)), *words)

    assert real.everything() == before


def test_the_change_of_these_tests_has_every_part_and_is_committed_whole(real: Real) -> None:
    terms, plans = lay_out(real)

    named = {word.partition(":")[0] for word in plans[DAMAGED][0].split()[4:]}
    results = send(real, terms, plans)

    assert named == PARTS.keys()
    assert [result.split()[0] for result in results] == ["4", "5", "6", "stale"]  # whose queue entries are acknowledged


def test_numbers_are_exact_in_lua() -> None:
    assert 10**MAX_DIGITS <= 2**53
