"""What a store promises of claims on files: the dict fake and the functions on a real server in one suite."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.handlers import outcomes
from tasks.plan.changeset import ClaimChange, claims_name
from tasks.plan.file_claims import FileClaims
from tasks.plan.snapshot import Snapshot
from tests.support.memory_store import EPOCH_MS
from tests.support.open_memory import OpenMemory
from tests.support.plans import PARTITION, a_plan, a_plan_seed, a_report, a_step, plan_id
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
    def read_claims(self, *files: str, plan: str = "", deep: bool = False) -> FileClaims:
        call = file_claims.read_call(PARTITION, ClaimsAsk("acme", "acme/shop", files, deep), plan)
        return file_claims.decode(functions.call(self.client, *call))


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


def finish(store: Any, plan: str) -> None:
    (view,) = store.begin([Ask(plan, ["a"])])
    assert store.commit([Write(outcomes.apply(view, [a_report("a")]))]) == ["ok"]


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


def test_who_waits_for_whom_is_read_on_from_plan_to_plan(store: Any) -> None:
    create(store, ONE, A)
    create(store, TWO, A, B)
    create(store, THREE, B, C)

    found = store.read_claims(C, deep=True)

    assert found.reaches(THREE, ONE)
    assert found.plans == {ONE: [A], TWO: [A, B], THREE: [B, C]}


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


def test_a_plan_that_expired_gives_back_what_it_left(real: RealClaims) -> None:
    create(real, ONE, A, B)

    given = functions.call(real.client, "FCALL", functions.RELEASE_FILES, 1, PARTITION.timers, ONE)

    assert given == 2
    assert [key for key in real.everything() if key.startswith(PARTITION.claims)] == []


def test_ten_thousand_files_are_claimed_and_given_back(real: RealClaims) -> None:
    files = [f"src/{number}.py" for number in range(10_000)]
    view, _ = a_plan_seed(ONE), create(real, ONE, A)
    claims = [ClaimChange(REPOSITORY, file, "", view.plan_id) for file in files]
    (before,) = real.begin([Ask(ONE, ["a"])])
    assert isinstance(before, Snapshot)
    change = outcomes.apply(before, ())
    change.changed, change.claims = True, claims
    assert real.commit([Write(change)]) == ["ok"]
    assert len(real.read_claims(*files).files) == 10_000

    finish(real, ONE)

    assert real.read_claims(*files).files == {}


def test_a_commit_laid_out_before_files_were_claimed_is_taken_and_gives_back_all_the_same(real: RealClaims) -> None:
    create(real, ONE, A)
    (view,) = real.begin([Ask(ONE, ["a"])])
    assert isinstance(view, Snapshot)
    change = outcomes.apply(view, [a_report("a")])
    call = list(PlanStore(real.client, PARTITION, "me", RETENTION_S, real.commits).commit_call(Write(change)))
    call[1] = "planner_commit_5"
    first = 3 + call[2] + 14 + 18  # of the numbers of claims, failures and probes
    del call[first : first + 3]

    assert isinstance(real.client.execute_command(*call), int)

    assert real.fields(PARTITION.plan(ONE).plan)["state"] == b"COMPLETED"
    assert real.read_claims(A) == FileClaims()


def test_who_is_overtaken_in_its_place_is_looked_at(store: Any) -> None:
    create(store, ONE, A)
    create(store, TWO, B, overlap="allow")
    create(store, THREE, A, B)
    due = store.members(PARTITION.timers)[THREE]
    (view,) = store.begin([Ask(ONE, ["a"])])
    change = outcomes.apply(view, ())
    change.changed = True
    change.claims = [ClaimChange(REPOSITORY, B, f"{TWO} ?{THREE}", f"{TWO} ?{ONE} ?{THREE}")]

    assert store.commit([Write(change)]) == ["ok"]

    assert store.members(PARTITION.timers)[THREE] < due
