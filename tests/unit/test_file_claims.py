"""Claims on files that many plans share: what decisions are given of them, and what stays of them in logs."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.plan.file_claims import FileClaims, before, count_claims, last_of, mark_of, plans_of, shorten
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.policy import expansion
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.support.memory_store import MemoryStore
from tests.support.overlapping import FILES, REPO, Neighbours
from tests.support.plans import PARTITION, Running, a_report, a_step, plan_id
from tests.support.replay import export_of

A, B, C, D = FILES
MANY = [plan_id(number) for number in range(1, 21)]
QUEUE = " ".join([MANY[0], *(f"?{plan}" for plan in MANY[1:])])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Neighbours:
    neighbours = Neighbours()
    monkeypatch.setattr(expansion, "strategy_of", lambda _: neighbours.script)
    return neighbours


def claims_in(plan: Running) -> list[dict[str, Any]]:
    """What the lines of a plan's log say of claims."""
    return [found for line in plan.log if (found := line.get("around", {}).get("claims"))]


def bytes_of(plan: Running) -> int:
    return sum(map(len, plan.store.held(plan.plan_id).log))


def test_of_claims_the_first_the_last_and_those_around_a_plan_are_left() -> None:
    first = " ".join([MANY[0], *(f"?{plan}" for plan in MANY[1:5])])

    assert shorten("") == ""
    assert shorten(MANY[0]) == MANY[0]
    assert shorten(QUEUE) == f"{first} +14 ?{MANY[19]}"
    assert shorten(QUEUE, MANY[10]) == f"{first} +4 ?{MANY[9]} ?{MANY[10]} +8 ?{MANY[19]}"
    assert shorten(QUEUE, MANY[10], 0) == f"+9 ?{MANY[9]} ?{MANY[10]} +9"
    assert shorten(QUEUE, MANY[0], 0) == f"{MANY[0]} +19"
    assert shorten(QUEUE, "", 0) == "+20"


def test_what_was_shortened_says_as_much_of_plans_as_all_claims() -> None:
    short = shorten(QUEUE, MANY[10])

    assert count_claims(short) == count_claims(QUEUE) == 20
    assert last_of(short) == last_of(QUEUE) == MANY[19]
    assert before(short, f"?{MANY[10]}") == before(QUEUE, f"?{MANY[10]}") == MANY[9]
    assert plans_of(short)[:5] == plans_of(QUEUE)[:5]
    assert (last_of(""), before(QUEUE, MANY[0]), before(QUEUE, MANY[5])) == ("", "", "")


def test_claims_that_come_to_the_end_are_counted_as_if_all_were_known() -> None:
    text, claims = "", FileClaims()
    for plan in MANY:
        known = {A: claims.joined(A, f"?{plan}")}
        text, claims = f"{text} ?{plan}".strip(), claims.updated(known)

        assert known[A] == (shorten(text), mark_of(text))


def test_a_plan_is_waited_for_by_those_behind_it_and_by_those_that_wait_for_them() -> None:
    one, two, three, four, five = map(plan_id, (1, 2, 3, 4, 5))
    claims = FileClaims({A: f"{one} ?{two}", B: f"{two} {four} ?{three}", C: f"{five} {one}", "": "7"})

    assert claims.waiting_for(one) == {two, three}
    assert claims.waiting_for(two) == {three}
    assert claims.waiting_for(four) == {three}
    assert claims.waiting_for(three) == claims.waiting_for(five) == set()
    assert claims.short_for(one, FILES).behind == {B: two}


def test_of_many_files_the_log_names_the_plans_of_the_first_only() -> None:
    claims = FileClaims(dict.fromkeys(FILES, QUEUE))

    assert claims.short_for("", FILES).cut([B, "src/free.py", A, C], 1).files == {B: shorten(QUEUE), A: "+20", C: "+20"}


@pytest.mark.parametrize("overlap", ["allow", "wait", "refuse"])
def test_what_a_plan_leaves_does_not_grow_with_the_plans_that_share_its_files(here: Neighbours, overlap: str) -> None:
    for _ in range(30):
        here.begin(a_step("a", files=[A, B]), overlap="allow")
    tenth = here.begin(a_step("a", files=[A, B]), overlap=overlap)
    for _ in range(70):
        here.begin(a_step("a", files=[A, B]), overlap="allow")
    last = here.begin(a_step("a", files=[A, B]), overlap=overlap)

    assert bytes_of(last) <= bytes_of(tenth) + 20  # digits
    assert sum(map(len, map(repr, last.changes[0].claims))) <= sum(map(len, map(repr, tenth.changes[0].claims))) + 20


def test_what_a_look_leaves_does_not_grow_with_the_plans_that_wait(here: Neighbours) -> None:
    sizes: list[int] = []
    for count in (20, 60):
        *_, before_last, last = [here.begin(a_step("a", files=[A, B])) for _ in range(count)]
        here.cancel(before_last)
        here.sweep()
        assert last.log[-1]["in"][0][0] == "file wait"
        sizes.append(len(codec.dumps(claims_in(last)[-1])))

    assert sizes[1] <= sizes[0] + 20


def test_what_steps_leave_that_are_added_does_not_grow_with_the_plans_that_wait(here: Neighbours) -> None:
    sizes: list[int] = []
    for count in (20, 60):
        for _ in range(count):
            here.begin(a_step("a", files=[A]))
        plan = here.begin(a_step("x", files=[B]))
        here.succeed(plan, "x", [a_step("y", files=[A])])
        assert plan.record.claims.waits
        sizes.append(len(codec.dumps(claims_in(plan)[-1])))
        here.cancel(plan)

    assert sizes[1] <= sizes[0] + 20


def test_of_the_commits_that_create_a_large_plan_the_first_tells_the_claims(here: Neighbours) -> None:
    files = [f"src/{number}.py" for number in range(200)]
    steps = [a_step(f"s-{number}", files=[file]) for number, file in enumerate(files)]
    here.begin(*steps)
    second, third = here.begin(*steps), here.begin(*steps)

    assert len(second.changes) > 3
    assert [number for number, line in enumerate(second.log) if "claims" in line.get("around", {})] == [0]
    (told,) = claims_in(third)
    assert [*told["files"]] == files
    assert told["files"][files[19]] == f"{plan_id(1)} ?{plan_id(2)}"
    assert {told["files"][file] for file in files[20:]} == {"+2"}


def some_lives(store: MemoryStore, overlap: str, steps: int) -> list[Running]:
    """Plans of a store that want the same two files; the first three end one after the other, where they may."""
    named = [a_step(f"s-{number}", files=[A, B] if number == 0 else [f"src/{number}.py"]) for number in range(steps)]
    about: dict[str, Any] = {"store": store, "repo": REPO, "tenant": "acme"}
    made = [Running(*named, plan=plan, overlap="allow" if plan == MANY[0] else overlap, **about) for plan in MANY[:11]]
    for plan in made[:3]:
        while plan.active:
            plan.report(*[a_report(step, 1, attempt.lease) for step, attempt in sorted(plan.active.items())])
        for other in made:
            if other.state not in PLAN_ENDS:
                other.sweep()
    return made


@pytest.mark.parametrize("overlap", ["allow", "wait", "refuse"])
@pytest.mark.parametrize("steps", [1, 150])
def test_plans_that_shared_files_come_out_of_their_logs_as_they_were(steps: int, overlap: str) -> None:
    store = MemoryStore(PARTITION)
    for plan in some_lives(store, overlap, steps):
        found = replay(RecordedPlan.read(export_of(store.held(plan.plan_id))))

        assert (found.result, found.parts, found.why) == (Result.EQUAL, (), "")
        assert plan.plan_id == plan_id(1) or any("claims" in line.get("around", {}) for line in plan.log)
