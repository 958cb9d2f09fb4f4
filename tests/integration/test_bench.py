"""The benchmark: its controllers say what others would, its floor writes what we write, and a run has all figures."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.outcome import Outcome
from tests.bench import Measurement, effects, fleet, measure, plan_sizes, profile, servers
from tests.bench.__main__ import main
from tests.bench.fleet import Fleet
from tests.bench.site import Site, Sizes
from tests.conftest import connect, running_worker
from tests.support.engine import container, plan
from tests.support.programs import needs
from tests.support.stored import P0, plans, state

SMALL = Sizes(
    plans=20,
    steps=3,
    warm_up=2,
    tasks=50,
    pings=20,
    idle_pings=3,
    steps_of_plans=(10, 50),
    least_outcomes=100,
    live_plans=(20, 50),
    heartbeats=200,
    flood=10_000,
)


def test_the_fleets_outcome_is_byte_for_byte_that_of_the_whole_spec(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url) as here, Fleet(redis) as controllers:
        plan(here, redis, *[codec.loads(fleet.goal(number, 12, chains=4)) for number in range(3)])

        specs = controllers.read(100, 1000)
        written = [fleet.encoded_outcome(spec.data) for spec in specs]

        assert len(specs) == 12
        assert written == [codec.dumps(fleet.outcome(codec.loads(spec.data))) for spec in specs]
        assert all(Outcome.model_validate_json(each).success for each in written)


def test_the_fleet_works_on_all_partitions_until_every_outcome_is_applied(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url, partitions=2) as here:
        goals = [codec.loads(fleet.goal(number, 1)) | {"context": {"repo": f"r{number}"}} for number in range(8)]
        plan(here, redis, *goals)

        with Fleet(redis, 2) as controllers:
            specs = controllers.read(100, 1000)
            controllers.answer(specs)

        addresses = Counter(codec.loads(spec.data)["reply_to"].encode() for spec in specs)
        assert {address: redis.xlen(address) for address in addresses} == addresses
        assert len(addresses) == 2


@pytest.mark.outages
def test_the_bare_loop_writes_what_a_commit_of_ours_wrote(redis_url: str, tmp_path: Path) -> None:
    with connect(redis_url) as redis, running_worker(redis_url, tmp_path / "worker.log"):
        site = Site(redis, redis_url, "solo", lambda _: None, SMALL)
        site.submit([fleet.goal(0, 10)])
        (model,) = plans(redis)
        log = P0.plan(model).log

        commit = effects.capture(redis)
    with connect(redis_url) as redis:  # alone: a worker's commands would be counted as well
        written: Any = redis.lrange(log, effects.APPLIED_BEFORE + 1, effects.APPLIED_BEFORE + 1)
        redis.function_load(commit.function, replace=True)
        redis.config_resetstat()
        plan_id = f"plan_00-{secrets.token_hex(16)}"
        words = [word.replace(effects.PLAN_ID, plan_id.encode()) for word in commit.arguments]
        words = [b"0-1" if word in (effects.OLD, effects.OUTCOME) else word for word in words]
        redis.fcall("bench_effects", 0, *words, *words)
        calls: Any = redis.info("commandstats")
        copied: Any = redis.lrange(log.replace(model, plan_id), 0, -1)
        redis.function_delete("bench_effects")

        assert copied == [line.replace(model.encode(), plan_id.encode()) for line in written * 2]
        each = [write[0] for write in commit.writes if write[0] not in effects.ONCE_A_CALL]
        once = [write[0] for write in commit.writes if write[0] in effects.ONCE_A_CALL]
        wanted = Counter(name.decode().lower() for name in [*each, *each, *once])
        assert {name: calls[f"cmdstat_{name}"]["calls"] for name in wanted} == wanted


def test_a_copied_plan_is_stored_as_its_model_is(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url) as here:
        (model,) = plan(here, redis, codec.loads(fleet.goal(0, 10)))
        due: Any = redis.zscore(P0.timers, model)

        plan_sizes.copy(redis, model.encode(), 3)

        copies = [plan_id for plan_id in plans(redis) if plan_id != model]
        assert len(copies) == 3
        for copied in copies:
            assert state(redis, copied) == state(redis, model)
            assert redis.hgetall(P0.plan(copied).status) == redis.hgetall(P0.plan(model).status)
            assert redis.hget(P0.listed, copied) == redis.hget(P0.listed, model)
            assert redis.zscore(P0.timers, copied) == due + plan_sizes.YEAR_MS


@pytest.mark.long
@pytest.mark.outages
@needs("redis-server")
def test_a_brief_run_on_an_installed_server_has_every_figure_with_its_spread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--brief", "--runs", "2", "--plans", "10", "--steps", "2", "--server", "redis-server", "--json"]

    code = main([*options, "--appendfsync", "always"])

    printed = capsys.readouterr()
    assert code == 0, printed.err
    report = codec.loads(printed.out)
    assert report["runs"] == 2
    assert report["server"]["name"] == "redis"
    assert report["server"]["allocator"].startswith("jemalloc")
    assert report["server"]["appendfsync"] == "always"
    assert {"cpu_us", "fleet_cpu_us", "goal_worker_cpu_us", "creation_vs_outcomes"} <= report["figures"].keys()
    del report["figures"]["plan_bytes"]  # of ten plans that is what else the server did
    for figure in report["figures"].values():
        assert 0 < figure["min"] <= figure["median"] <= figure["max"]


@pytest.mark.outages
def test_a_profile_counts_each_command_of_an_outcome_and_tells_where_cpu_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "PLANS", 40)

    alone, beside = profile.measure(), profile.measure(30)

    for each in (alone, beside):
        assert each["outcomes"] == 40 * (profile.STEPS - 1 - profile.SKIPPED)
        calls = {one["command"]: one["calls"] for one in each["server"]["commands"]}
        assert (calls["rpush"], calls["xadd"]) == (1, 3)  # a line of the log; two events and the next spec
        assert sum(each["worker"].values()) == pytest.approx(sum(each["modules"].values()))
        assert any(name.startswith("deciding") for name in each["worker"])
    lines = list(profile.table({"alone": alone, "live": 30, "beside": beside}))
    assert lines[0].endswith("| us an outcome | with 30 live plans |")
    assert {line.count("|") for line in lines if line.startswith("| RPUSH")} == {5}


@pytest.mark.outages
@pytest.mark.long
def test_a_whole_run_measures_every_part(tmp_path: Path) -> None:
    said: list[str] = []

    report = measure(Measurement(sizes=SMALL), said.append)

    (figures,) = report.runs
    assert all(value > 0 for name, value in figures.items() if name != "plan_bytes")
    assert {
        "outcomes_vs_noop",
        "outcomes_vs_effects_floor",
        "latency_idle_vs_roundtrip",
        "large_plan_cost",
        "many_plans_cost",
        "two_workers_two_partitions_cost",
        "creation_vs_outcomes",
        "goal_flood_p99_ms",
        "http_outcomes_per_s",
        "repository_cpu_us",
    } <= figures.keys()
    assert len(said) > 20


def test_a_server_that_has_keys_is_left_alone(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connect(redis_url) as redis:
        redis.set("mine", 1)

        code = main(["--brief", "--server", redis_url])

        assert code == 2
        assert "has 1 keys, and the benchmark empties it" in capsys.readouterr().err
        assert redis.get("mine") == b"1"


@pytest.mark.parametrize(
    ("server", "options", "why"),
    [
        ("no-such-server", {}, "There is no program no-such-server"),
        ("redis://127.0.0.1:1/0", {"preload": Path("/lib/x.so")}, "nothing can be preloaded"),
        ("redis://127.0.0.1:1/0", {"appendfsync": "always"}, "its own configuration says when"),
        ("/bin/false", {}, "has ended with 1"),
        (servers.EMBEDDED, {"preload": Path("/lib/x.so")}, "has not loaded /lib/x.so"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_with_a_sentence(
    server: str, options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(servers.UnusableServer, match=why), servers.running(server, tmp_path, **options):
        pass
    assert "LD_PRELOAD" not in os.environ
