"""What a store promises of claims on files: the dict fake and the functions on a real server in one suite."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from schemas import codec
from tasks.handlers import outcomes
from tasks.plan.changeset import FIRST, ClaimChange, claims_name
from tasks.plan.file_claims import WAITS, FileClaims, mark_of, shorten
from tests.support.memory_store import EPOCH_MS
from tests.support.open_memory import OpenMemory
from tests.support.plans import PARTITION, a_plan, a_report, a_step, plan_id
from tests.support.real_store import RETENTION_S, Real
from worker.store import clients, file_claims, functions
from worker.store.file_claims import ClaimsAsk
from worker.store.plans import Ask, PlanStore, Write

A, B, C = "src/a.py", "src/b b.py", "src/c.py"
ONE, TWO, THREE = map(plan_id, (1, 2, 3))
REPOSITORY = claims_name("acme", "acme/shop")
WHOSE: dict[str, Any] = {"tenant": "acme", "repo": "acme/shop"}


class MemoryClaims(OpenMemory):
    def read_claims(self, *files: str, plan: str = "", deep: bool = False) -> FileClaims:
        return self.claims(ClaimsAsk("acme", "acme/shop", files, deep), plan)


class RealClaims(Real):
    def release_kept(self, plan: str) -> None:
        file_claims.release(self.client, PARTITION, plan)

    def read_claims(self, *files: str, plan: str = "", deep: bool = False) -> FileClaims:
        ask = ClaimsAsk("acme", "acme/shop", files, deep)
        return file_claims.decode(functions.call(self.client, *file_claims.read_call(PARTITION, ask, plan)), ask, plan)


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield MemoryClaims(PARTITION, RETENTION_S)
    else:
        with clients.connect(request.getfixturevalue("redis_url")) as client:
            yield RealClaims(client)


@pytest.fixture
def real(redis_url: str) -> Any:
    with clients.connect(redis_url) as client:
        yield RealClaims(client)


def create(store: Any, plan: str, *files: str, overlap: str = "wait") -> str:
    """Begin a plan of one step on what the store says of its files; returns the verdict."""
    born = {"claims": store.read_claims(*files)}
    (change,) = a_plan(a_step("a", files=files), plan=plan, born=born, overlap=overlap, **WHOSE)
    verdict: str = store.commit([Write(change)])[0]
    return verdict


def change_claims(store: Any, plan: str, *claims: ClaimChange) -> str:
    """Commit that these claims of a plan change; returns the verdict."""
    (view,) = store.begin([Ask(plan, ["a"])])
    change = outcomes.apply(view, ())
    change.changed, change.claims = True, [*claims]
    verdict: str = store.commit([Write(change)])[0]
    return verdict


def finish(store: Any, plan: str, delivered: Sequence[str] = ()) -> None:
    (view,) = store.begin([Ask(plan, ["a"])])
    change = outcomes.apply(view, [a_report("a")])
    change.keeps = [(REPOSITORY, file) for file in delivered]
    assert store.commit([Write(change)]) == ["ok"]


def test_claims_are_read_as_they_were_written(store: Any) -> None:
    assert create(store, ONE, A, B) == "ok"
    assert create(store, TWO, B, C) == "ok"

    assert store.read_claims(A, B, "src/nobody.py") == FileClaims({A: ONE, B: f"{ONE} ?{TWO}"})
    assert store.read_claims(plan=TWO) == FileClaims({B: f"{ONE} ?{TWO}", C: f"?{TWO}"}, {TWO: [B, C]})


def test_a_commit_that_rests_on_other_claims_writes_nothing(store: Any) -> None:
    (change,) = a_plan(a_step("a", files=[A]), plan=TWO, **WHOSE)
    create(store, ONE, A)
    before = store.everything()

    assert store.commit([Write(change)]) == ["claimed"]

    assert store.everything() == before


def test_the_end_of_a_plan_gives_back_its_claims_and_wakes_who_waited_behind_it(store: Any) -> None:
    create(store, ONE, A, C)
    create(store, TWO, A, B)
    create(store, THREE, A)
    due = store.members(PARTITION.timers)

    finish(store, ONE)

    assert store.read_claims(A, B, C) == FileClaims({A: f"?{TWO} ?{THREE}", B: f"?{TWO}"})
    after = store.members(PARTITION.timers)
    assert after[TWO] < due[TWO]
    assert after[THREE] == due[THREE]
    assert store.fields(PARTITION.claims).keys() == {TWO, THREE}


def test_nothing_is_left_once_every_plan_has_ended(store: Any) -> None:
    create(store, ONE, A, overlap="allow")
    create(store, TWO, A, overlap="allow")

    finish(store, ONE)
    finish(store, TWO)

    assert [key for key in store.everything() if key.startswith(PARTITION.claims)] == []


def test_a_plan_that_delivered_keeps_the_files_that_it_changed_until_they_are_given_back(store: Any) -> None:
    create(store, ONE, A, B)
    create(store, TWO, A)
    create(store, THREE, B)

    finish(store, ONE, delivered=[B, C])

    assert store.read_claims(A, B, C) == FileClaims({A: f"?{TWO}", B: f"{ONE} ?{THREE}", C: ONE})
    store.release_kept(ONE)
    assert store.read_claims(A, B, C) == FileClaims({A: f"?{TWO}", B: f"?{THREE}"})
    store.release_kept(THREE)
    assert store.read_claims(B) == FileClaims({B: f"?{THREE}"})


def test_files_of_a_plan_whose_keys_are_gone_stay_kept_and_lapse_after_14_days(real: RealClaims) -> None:
    create(real, ONE, A)
    finish(real, ONE, delivered=[A])
    real.client.delete(PARTITION.plan(ONE).plan)
    places = (PARTITION.timers, PARTITION.plans, PARTITION.plan(ONE).plan)
    functions.call(real.client, "FCALL", functions.FORGET, len(places), *places, ONE)
    assert real.read_claims(A) == FileClaims({A: ONE})

    until = real.members(PARTITION.claims_kept)[ONE]
    assert until - clients.now_ms(real.client) == pytest.approx(14 * 86_400_000, abs=60_000)
    real.client.zadd(PARTITION.claims_kept, {ONE: 1})
    create(real, TWO, B)
    finish(real, TWO, delivered=[B])

    assert real.fields(PARTITION.claims).keys() == {TWO}


def test_who_waits_for_whom_is_read_on_from_plan_to_plan(store: Any) -> None:
    create(store, ONE, A)
    create(store, TWO, A, B)
    create(store, THREE, B, C)

    found = store.read_claims(C, plan=ONE, deep=True)

    assert found == FileClaims({C: f"?{THREE}"}, {ONE: []}, {C: THREE})
    assert store.read_claims(C, plan=THREE, deep=True).behind == {}


def test_an_end_counts_where_somebody_waited_for_it(store: Any) -> None:
    create(store, ONE, A, B)
    create(store, TWO, A)
    assert "" not in store.read_claims(A, deep=True).files

    finish(store, ONE)

    assert store.read_claims(A, deep=True).files[""] == "1"


@pytest.mark.parametrize("left", ["ended", "gone"])
def test_what_a_plan_left_is_given_back_where_somebody_meets_it(real: RealClaims, left: str) -> None:
    create(real, ONE, A, B)
    create(real, TWO, A)
    key = PARTITION.plan(ONE).plan
    real.client.delete(key) if left == "gone" else real.client.hset(key, "state", "HALTED")  # as no commit does

    assert real.read_claims(A) == FileClaims({A: f"?{TWO}"})

    assert real.read_claims(B) == FileClaims()
    assert real.members(PARTITION.timers)[TWO] > EPOCH_MS - 10**12


def test_a_plan_that_expired_leaves_lists_and_timers_and_gives_back_its_files(real: RealClaims) -> None:
    create(real, ONE, A, B)

    places = (PARTITION.timers, PARTITION.plans, PARTITION.plan(ONE).plan)
    forget = ("FCALL", functions.FORGET, len(places), *places, ONE)

    assert functions.call(real.client, *forget) == 0  # it is there
    assert real.read_claims(A, B) != FileClaims()
    real.client.delete(*PARTITION.plan(ONE))

    assert functions.call(real.client, *forget) == 1
    left = (PARTITION.claims, PARTITION.timers, PARTITION.plans)
    assert [key for key in real.everything() if key.startswith(left)] == []


def test_ten_thousand_files_are_claimed_and_given_back(real: RealClaims) -> None:
    files = [f"src/{number}.py" for number in range(10_000)]
    create(real, ONE, A)

    assert change_claims(real, ONE, *(ClaimChange(REPOSITORY, file, "0", ONE) for file in files)) == "ok"
    assert len(real.read_claims(*files).files) == 10_000

    finish(real, ONE)

    assert real.read_claims(*files).files == {}


def test_who_is_overtaken_in_its_place_is_looked_at(store: Any) -> None:
    create(store, ONE, A)
    create(store, TWO, B, overlap="allow")
    create(store, THREE, A, B)
    due = store.members(PARTITION.timers)[THREE]
    seen = store.read_claims(B).mark(B)

    assert change_claims(store, ONE, ClaimChange(REPOSITORY, B, seen, f"?{ONE}", THREE)) == "ok"

    assert store.members(PARTITION.timers)[THREE] < due
    assert store.read_claims(B) == FileClaims({B: f"{TWO} ?{ONE} ?{THREE}"})


def test_a_plan_waits_for_a_file_no_more_only_where_nobody_is_before_it(store: Any) -> None:
    create(store, ONE, A)
    create(store, TWO, A)
    create(store, THREE, A)

    assert change_claims(store, TWO, ClaimChange(REPOSITORY, A, "", TWO, FIRST)) == "claimed"
    finish(store, ONE)
    assert change_claims(store, TWO, ClaimChange(REPOSITORY, A, "", TWO, FIRST)) == "ok"

    assert store.read_claims(A) == FileClaims({A: f"{TWO} ?{THREE}"})
    assert store.read_claims(plan=TWO).plans == {TWO: []}


@pytest.mark.parametrize("overlap", ["allow", "wait"])
def test_of_many_claims_on_a_file_a_plan_is_given_the_few_that_matter(store: Any, overlap: str) -> None:
    plans = [plan_id(number) for number in range(1, 13)]
    wait = "?" * (overlap == "wait")
    for plan in plans:
        create(store, plan, A, overlap=overlap)
    first = " ".join([ONE, *(wait + plan for plan in plans[1:5])])
    last = wait + plans[-1]

    assert store.read_claims(A).files == {A: f"{first} +6 {last}"}
    of_eighth = store.read_claims(A, plan=plans[7]).files
    assert of_eighth == {A: f"{first} +1 {wait}{plans[6]} {wait}{plans[7]} +3 {last}"}
    own = store.read_claims(plan=plans[7])
    assert own.files == ({A: f"+6 ?{plans[6]} ?{plans[7]} +4"} if wait else {})
    assert own.plans == {plans[7]: [A] if wait else []}


def test_claims_are_shortened_alike_by_the_server_and_for_a_log(real: RealClaims) -> None:
    drawn = Random(7)
    plans = [plan_id(number) for number in range(1, 16)]
    for plan in plans:
        real.client.hset(PARTITION.plan(plan).plan, "state", "READY")
        real.client.hset(PARTITION.claims, plan, f"{REPOSITORY}\t\n\t{A}")
    for _ in range(200):
        claims = [drawn.choice(["", "?"]) + plan for plan in drawn.sample(plans, drawn.randrange(1, 16))]
        me, text = drawn.choice(plans), " ".join(claims)
        real.client.hset(PARTITION.claims_of(REPOSITORY), A, text)

        assert real.read_claims(A, plan=me).files == {A: shorten(text, me)}
        assert real.read_claims(plan=me).files == {A: shorten(text, me, 0)}
        assert real.read_claims(A).mark(A) == mark_of(text)


def test_what_another_live_plan_of_a_file_costs_does_not_grow(real: RealClaims) -> None:
    """The bytes that are read for it, sent for it, and kept of it in its log."""
    sizes: list[tuple[int, int, int]] = []
    for number in range(1, 41):
        plan = plan_id(number)
        ask = ClaimsAsk("acme", "acme/shop", (A, B))
        found = functions.call(real.client, *file_claims.read_call(PARTITION, ask))
        born = {"claims": file_claims.decode(found)}
        (change,) = a_plan(a_step("a", files=[A, B]), plan=plan, born=born, overlap="wait", **WHOSE)
        sent = PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits).commit_call([Write(change)])
        assert real.commit([Write(change)]) == ["ok"]
        sizes.append((len(codec.dumps([*map(repr, found)])), len(repr(sent)), len(change.log)))

    for of_tenth, of_last in zip(sizes[9], sizes[-1], strict=True):
        assert of_last <= of_tenth + 10  # digits


@pytest.mark.parametrize("asks", [plan_id(9), ""])
def test_of_many_claims_those_are_given_back_that_a_plan_would_wait_for(real: RealClaims, asks: str) -> None:
    plans = [plan_id(number) for number in range(1, 13)]
    for plan in plans:
        create(real, plan, A)
    met = plans[6:8] if asks else [*plans[:6], *plans[10:]]  # before it; the first and the last ones
    for plan in met:
        real.client.delete(PARTITION.plan(plan).plan)

    found = real.read_claims(plan=asks) if asks else real.read_claims(A)

    left = [plan for plan in plans if plan not in met]
    claims = " ".join([WAITS * (plan != ONE) + plan for plan in left])
    assert found.files == {A: shorten(claims, asks, 0 if asks else 5)}
    assert real.client.hget(PARTITION.claims_of(REPOSITORY), A) == claims.encode()


def test_plans_that_wait_for_nothing_are_not_followed(real: RealClaims) -> None:
    many = [f"src/{number}.py" for number in range(500)]
    create(real, ONE, A, *many)
    create(real, TWO, A, overlap="allow")
    create(real, THREE, A)

    ask = ClaimsAsk("acme", "acme/shop", (A,), deep=True)
    files, plans = functions.call(real.client, *file_claims.read_call(PARTITION, ask))

    assert [name.decode() for name in files[::3]] == [A]
    assert plans == [ONE.encode(), [], TWO.encode(), [], THREE.encode(), [A.encode()]]
