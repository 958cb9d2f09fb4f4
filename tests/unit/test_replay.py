"""A recorded plan is decided again from its export, which is data from outside: nothing that stands there breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from tasks.base.policy import BUILT_IN
from tasks.base.policy_version import POLICY_VERSION
from tasks.handlers import commands, outcomes
from tasks.record import replay as replays
from tasks.record.backtest import Verdict, backtest_recorded
from tasks.record.held_plan import HeldPlan
from tasks.record.recorded_plan import NoExport, RecordedPlan
from tasks.record.replay import Replay, replay
from tests.corpus import record
from tests.support.commands import an_order
from tests.support.memory_store import EPOCH_MS
from tests.support.plans import PARTITION, PLAN, a_plan, some_steps
from tests.support.replay import export_of
from worker.cli.commands.app import app

STRANGE: list[Any] = [
    None,
    True,
    -1,
    10**18,
    1e308,
    "",
    "x" * 5000,
    "\u202e",
    [],
    [[]],
    {},
    {"": 0},
    [["outcome"]],
    [["command", {}]],
]


@cache
def exported() -> bytes:
    """An export of a plan with revisions."""
    for each in record.read():
        if each["scene"]["name"] == "supplied-wide-clumsy" and (found := record.export(each)):
            return found
    raise AssertionError


def altered(**parts: Any) -> bytes:
    return codec.dumps({**codec.loads(exported()), **parts})


def again(data: bytes) -> Replay:
    return replay(RecordedPlan.read(data))


def with_line(number: int, **parts: Any) -> bytes:
    log = codec.loads(exported())["log"]
    log[number] |= parts
    return altered(log=log)


def test_a_plan_comes_out_as_it_was() -> None:
    found = again(exported())

    assert (found.result, found.parts) == (replays.Result.EQUAL, ())
    assert found.lines == len(codec.loads(exported())["log"]) > 1


def test_a_line_that_was_changed_is_named_with_what_differs() -> None:
    log = codec.loads(exported())["log"]
    moves = [*log[1]["moves"][:-1], ["s-1", "ACTIVE", "DONE"]]

    found = again(with_line(1, moves=moves))

    assert (found.result, found.line, found.lines) == (replays.Result.DIFFERENT, log[1]["version"], 1)
    assert [part.name for part in found.parts] == ["moves"]


def test_a_state_that_was_changed_is_named() -> None:
    plan = codec.loads(exported())["plan"]
    plan["live"]["spent"]["tokens"] += 1

    found = again(altered(plan=plan))

    assert (found.result, found.line, [part.name for part in found.parts]) == ("different", None, ["live.spent"])


def test_a_plan_under_newer_rules_is_not_replayed() -> None:
    plan = codec.loads(exported())["plan"]
    plan["head"]["policy_version"] = POLICY_VERSION + 1
    data = codec.loads(with_line(0, by="9.8.7"))

    found = again(codec.dumps({**data, "plan": plan}))

    assert found.result is replays.Result.NOT_REPLAYED
    assert f"policy version {POLICY_VERSION + 1}" in found.why
    assert "release 9.8.7" in found.why


def test_a_plan_that_runs_is_replayed_without_its_seed() -> None:
    plan = codec.loads(exported())["plan"]
    del plan["head"]["seed"]

    found = again(altered(plan=plan))

    assert found.result is replays.Result.EQUAL
    assert replays.NO_SEED in found.assumed


def test_what_changed_while_it_was_exported_is_not_called_equal() -> None:
    plan = codec.loads(exported())["plan"] | {"state": "EXECUTING"}

    assert replays.NOT_WHOLE in again(altered(changed_meanwhile=True, plan=plan)).assumed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"{" * 100_000,
        b'{"log":[',
        b'{"format":"planner.plan","log":7}',
        altered(format="x"),
        altered(plan={}),
        altered(steps=None),
    ],
)
def test_what_is_no_export_is_refused(data: bytes) -> None:
    with pytest.raises(NoExport):
        RecordedPlan.read(data)


def test_whatever_stands_in_an_export_nothing_breaks() -> None:
    equal = 0
    for seed in range(250):
        rng, document = Random(seed), codec.loads(exported())
        for _ in range(rng.choice((1, 1, 3))):
            places = list(places_in({name: document[name] for name in ("plan", "steps", "log", "in_flight")}))
            holder, key = rng.choice(places)
            holder[key] = deepcopy(rng.choice(STRANGE))
        try:
            equal += again(codec.dumps(document)).result == "equal"
        except NoExport:
            continue

    assert equal < 150  # most of what stands there counts


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a document where a value can be put, with what holds it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


def begun_anew(*made: int, refused: bool = False) -> HeldPlan:
    """A plan of 160 steps, of which some creations were overtaken after so many of their three commits."""
    plan, now = HeldPlan(PLAN, PARTITION.outcomes, PARTITION.lease_prefix(PLAN)), EPOCH_MS
    for number in (*made, 3):
        born = {"created": EPOCH_MS, "log_head": plan.record.log if plan.fields else None}
        for change in a_plan(*some_steps(160), version=plan.version, now=now, born=born)[:number]:
            plan.commit(change)
        if refused and number < 3:
            plan.commit(commands.apply(plan.snapshot(now), [an_order("cancel", order_id=f"o-{now}")]))
        now += 7
    plan.commit(outcomes.apply(plan.snapshot(now), []))
    assert (plan.record.state, len(plan.active)) == ("EXECUTING", 4)
    return plan


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("made", [(1,), (2,), (2, 1), (1, 2, 2)])
def test_a_plan_comes_out_as_it_was_whose_creation_was_overtaken_and_begun_anew(
    made: tuple[int, ...], refused: bool
) -> None:
    plan = begun_anew(*made, refused=refused)

    found = again(export_of(plan))

    assert (found.result, found.parts, found.why) == (replays.Result.EQUAL, (), "")
    assert found.lines == len(plan.log) == sum(made) + len(made) * refused + 4


def test_a_creation_that_was_overtaken_is_held_against_its_lines_too() -> None:
    document = codec.loads(export_of(begun_anew(2)))
    document["log"][1]["moves"] = [["s-70", "PENDING", "DONE"]]

    found = again(codec.dumps(document))

    assert (found.result, found.line, [part.name for part in found.parts]) == ("different", 2, ["moves"])


def test_other_rules_are_tried_on_the_creation_that_came_to_something() -> None:
    found = backtest_recorded(RecordedPlan.read(export_of(begun_anew(2, 1, refused=True))), BUILT_IN)

    assert (found.verdict, found.really.state) == (Verdict.SAME, "EXECUTING")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, words)])


def test_a_folder_is_replayed_a_line_a_plan(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(exported())
    (tmp_path / "b.json").write_bytes(with_line(1, moves=[]))
    (tmp_path / "c.json").write_bytes(b"{}")

    result = run(tmp_path, "--json")

    told = [codec.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [each["result"] for each in told] == ["equal", "different", "unreadable"]
    assert told[1]["differs"][0]["name"] == "moves"
    assert run(tmp_path / "a.json").exit_code == 0
    assert run(tmp_path / "a.json", tmp_path / "a.json", "-").exit_code == 1
    shown = run(tmp_path).stdout
    assert "3 plans: 1 equal, 1 different, 1 unreadable" in shown


@pytest.mark.parametrize("lines", [1, 5])
@pytest.mark.parametrize("words", [["replay"], ["backtest", "--policy", "policy.toml"]])
def test_a_log_without_its_plan_is_refused_with_how_to_export_it(
    words: list[str], lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").touch()
    recorded = RecordedPlan.read(exported()).lines[:lines]
    (tmp_path / "ci-1.jsonl").write_bytes(b"".join(line + b"\n" for line in recorded))

    result = CliRunner().invoke(app, [*words, "ci-1.jsonl"])

    assert result.exit_code == 1
    assert "export the plan again without --log" in " ".join(result.stdout.split())


@pytest.mark.parametrize("words", [["replay"], ["verify"], ["backtest", "--policy", "policy.toml"]])
def test_a_file_that_is_not_there_is_wrong_use_of_every_command(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").touch()

    result = CliRunner().invoke(app, [*words, "none.jsonl", "--json"])

    assert (result.exit_code, codec.loads(result.stdout)["code"]) == (2, "unreadable_file")


@pytest.mark.parametrize(
    "words", [["replay"], ["verify"], ["policy", "diff", "POLICY"], ["backtest", "--policy", "POLICY"]]
)
def test_a_name_that_no_file_can_have_or_nobody_may_look_at_breaks_nothing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", "redis://127.0.0.1:1/0")
    policy = tmp_path / "policy.toml"
    policy.touch()
    said = [str(policy) if word == "POLICY" else word for word in words]

    def refuse(self: Path, **_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    long = CliRunner().invoke(app, [*said, "x" * 300])
    monkeypatch.setattr(Path, "stat", refuse)
    hidden = CliRunner().invoke(app, [*said, str(tmp_path / "hidden" / "x")])

    assert isinstance(long.exception, SystemExit), long.exception
    assert isinstance(hidden.exception, SystemExit), hidden.exception
    assert "127.0.0.1:1" in long.stderr  # it may be the name of a plan
    assert (hidden.exit_code, "No such file" in hidden.output) == (2, True)


@pytest.mark.parametrize("words", [["verify", "ci-4711"], ["policy", "diff", "current", "current"]])
def test_a_server_that_is_away_is_no_difference(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", "redis://127.0.0.1:1/0")

    found = CliRunner().invoke(app, [*words, "--json"])

    assert (found.exit_code, codec.loads(found.stdout)["code"]) == (1, "no_redis")  # no `result`, no difference
