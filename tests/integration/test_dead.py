"""Dead entries as operators handle them: real entries that a real engine and decomposer buried."""

from __future__ import annotations

import base64
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.envelope import Problem
from tests.support.planner import Planner
from worker.cli.commands.app import app
from worker.store import dead as store
from worker.store import functions, keys, queries
from worker.store.dead import Filter
from worker.store.keys import Partition
from worker.streams.inbox import Inbox, StreamEntry

P0 = Partition(0)
NASTY = b'{"goal": "\x1b]0;owned\x07\x1b[31mred\xc2\x9b2J \xe2\x80\xae"}'


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "140")
    return lambda *words, stdin=None: CliRunner().invoke(app, ["dead", *map(str, words)], input=stdin)


def told(result: Result) -> Any:
    return codec.loads(result.stdout)


def send(planner: Planner, stream: str, data: bytes, **fields: str) -> str:
    """Publish an entry and have it taken, as a worker does."""
    body: dict[Any, Any] = {"data": data, **fields}
    entry: Any = planner.client.xadd(stream, body)
    take(planner)
    return str(entry.decode())


def take(planner: Planner) -> None:
    planner.container.goal_consumer.drain()
    planner.container.context(0).engine.drain()


def dead_letter(redis: Redis, data: bytes, code: str = "invalid_json", stream: str = P0.outcomes, **fields: str) -> str:
    """Put an entry into the dead stream of partition 0, without a worker; returns its name."""
    functions.load(redis)
    inbox = Inbox(redis, stream, P0.dead, "me")
    entry = StreamEntry(
        stream, b"1-1", {b"data": data, **{name.encode(): value.encode() for name, value in fields.items()}}
    )
    redis.execute_command(*inbox.dead_letter(entry, Problem.of(code, "It is wrong."))[0])
    last: Any = redis.xrevrange(P0.dead, count=1)
    return "0/" + str(last[0][0].decode())


def names(planner: Planner) -> list[str]:
    return [each.name for each in store.newest(planner.client, planner.partitions, Filter())]


# --- list and show ---


def test_nothing_dead_is_said_so(run: Callable[..., Result], redis: Redis) -> None:
    assert run("list").output == "There are no dead entries.\n"
    assert told(run("list", "--json")) == {"total": 0, "forgotten": 0, "causes": [], "entries": []}


def test_the_list_counts_causes_and_shows_the_newest_first(run: Callable[..., Result], planner: Planner) -> None:
    send(planner, keys.GOALS, b"not json")
    for _ in range(3):
        send(planner, P0.outcomes, b'{"step_id":"a","success":true}')

    found = told(run("list", "--json", "--limit", "2"))

    assert found["causes"] == [{"code": "missing_plan_id", "count": 3}, {"code": "invalid_json", "count": 1}]
    assert found["total"] == 4
    assert [each["entry"] for each in found["entries"]] == names(planner)[:2]
    assert {each["stream"] for each in found["entries"]} == {P0.outcomes}


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["--cause", "invalid_json"], {"invalid_json"}),
        (["--stream", "goals"], {"invalid_json"}),
        (["--stream", "0"], {"missing_plan_id"}),
        (["--stream", "outcomes"], {"missing_plan_id"}),
        (["--stream", P0.outcomes], {"missing_plan_id"}),
        (["--since", "1h"], {"invalid_json", "missing_plan_id"}),
        (["--since", "2100-01-01T00:00:00Z"], set()),
    ],
)
def test_the_list_is_narrowed_by_cause_stream_and_time(
    run: Callable[..., Result], planner: Planner, words: list[str], codes: set[str]
) -> None:
    send(planner, keys.GOALS, b"not json")
    send(planner, P0.outcomes, b'{"step_id":"a","success":true}')

    assert {each["code"] for each in told(run("list", "--json", *words))["entries"]} == codes


def test_a_wrong_time_is_refused_with_a_sentence(run: Callable[..., Result], redis: Redis) -> None:
    result = run("list", "--since", "yesterday")

    assert (result.exit_code, "'yesterday' is neither a time" in result.stderr) == (2, True)


def test_an_entry_is_shown_with_every_error_and_where_it_came_from(
    run: Callable[..., Result], planner: Planner
) -> None:
    entry = send(planner, keys.GOALS, b'{"goal": 7, "queue": 8}', traceparent="00-abc")
    (name,) = names(planner)

    shown, found = run("show", name).output, told(run("show", name, "--json"))

    assert f"from planner:goals, entry {entry}; dead-lettered 20" in shown
    assert "  /goal  Input should be a string (string_type)" in shown
    assert "  /queue  " in shown
    assert "traceparent: 00-abc" in shown
    assert (found["data"], found["fields"]) == ('{"goal": 7, "queue": 8}', {"traceparent": "00-abc"})
    assert [error["pointer"] for error in found["problem"]["errors"]] == ["/goal", "/queue"]


def test_no_byte_of_an_entry_steers_the_terminal(run: Callable[..., Result], planner: Planner) -> None:
    name = dead_letter(planner.client, NASTY, source="\x1b[2J")

    outputs = [run(*words).stdout for words in (["show", name], ["show", name, "--json"], ["list"])]

    for output in outputs:
        assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert r"\x1b]0;owned\x07\x1b[31mred\x9b2J \u202e" in outputs[0]
    assert codec.loads(outputs[1])["data"] == NASTY.decode()


def test_data_that_is_no_text_is_kept_for_scripts(run: Callable[..., Result], planner: Planner) -> None:
    name = dead_letter(planner.client, b"\xff\x00\xfe")

    found = told(run("show", name, "--json"))

    assert found["data"] is None
    assert base64.b64decode(found["data_base64"]) == b"\xff\x00\xfe"
    assert r"\xff\x00\xfe" in run("show", name).output


@pytest.mark.parametrize("name", ["0/1-1", "7/1-1", "goals/x", "nonsense", "0/-"])
def test_a_name_that_is_none_is_not_found(run: Callable[..., Result], planner: Planner, name: str) -> None:
    result = run("show", name, "--json")

    assert (result.exit_code, told(result)["code"]) == (3, "no_such_entry")


def test_entries_of_every_dead_stream_are_listed_and_named(run: Callable[..., Result], redis: Redis) -> None:
    functions.load(redis)
    each = ((keys.GOALS, keys.GOALS_DEAD), (keys.COMMANDS, keys.COMMANDS_DEAD), (P0.commands, P0.dead))
    for stream, dead in each:
        entry = StreamEntry(stream, b"1-1", {b"data": b"x"})
        redis.execute_command(*Inbox(redis, stream, dead, "me").dead_letter(entry, Problem.of("invalid_json", "x"))[0])

    names = [entry["entry"] for entry in told(run("list", "--json"))["entries"]]
    run("replay", *names)

    assert {name.partition("/")[0] for name in names} == {"goals", "commands", "0"}
    assert [(redis.xlen(stream), redis.xlen(dead)) for stream, dead in each] == [(1, 0)] * 3


# --- replay ---


def test_a_goal_is_replayed_with_its_fields_and_becomes_its_plan(
    run: Callable[..., Result], planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    decomposer = planner.container.goal_consumer
    monkeypatch.setattr(decomposer, "max_bytes", 10)
    send(planner, keys.GOALS, codec.dumps({"goal": "Fix b", "allowed_files": ["b.py"]}), id="ci-9", source="ci")
    (name,) = names(planner)
    monkeypatch.setattr(decomposer, "max_bytes", 10**6)

    assert told(run("replay", name, "--json")) == {"replayed": 1, "passed_over": 0, "reasons": []}
    sent: Any = planner.client.xrange(keys.GOALS)
    take(planner)

    assert {name: value for name, value in sent[0][1].items() if name != b"data"} == {
        b"id": b"ci-9",
        b"source": b"ci",
        b"replays": b"1",
    }
    assert queries.goal(planner.client, "ci-9") is not None
    assert names(planner) == []


def test_a_goal_without_an_id_that_is_sent_twice_makes_one_plan(planner: Planner) -> None:
    body = codec.dumps({"goal": "Fix b", "allowed_files": ["b.py"]})
    inbox = Inbox(planner.client, keys.GOALS, keys.GOALS_DEAD, "me")
    entry = StreamEntry(keys.GOALS, b"5-5", {b"data": body})
    planner.client.execute_command(*inbox.dead_letter(entry, Problem.of("poison", "x"))[0])
    (dead,) = store.newest(planner.client, 1, Filter())

    store.replay(planner.client, [dead])
    store.replay(planner.client, [dead])
    take(planner)

    assert planner.client.zcard(P0.plans) == 1
    assert queries.goal(planner.client, "5-5") is not None


def test_an_outcome_is_replayed_with_plan_attempt_and_lease(run: Callable[..., Result], planner: Planner) -> None:
    plan_id = planner.submit()
    spec: Any = planner.client.xrange(P0.steps("default"))
    lease = codec.loads(spec[0][1][b"data"])["lease"]
    body = codec.dumps({"step_id": "look", "success": True, "tests_passed": True})
    name = dead_letter(planner.client, body, "poison", plan_id=plan_id, attempt="1", lease=lease)

    assert run("replay", name).output == "Sent back 1.\n"
    take(planner)

    assert planner.view(plan_id).steps[0].state == "DONE"


def test_an_entry_that_dies_again_says_how_often_it_was_replayed(run: Callable[..., Result], planner: Planner) -> None:
    send(planner, P0.outcomes, b"not json")
    for _ in range(2):
        assert run("replay", "--all").exit_code == 0
        take(planner)

    (name,) = names(planner)
    assert told(run("show", name, "--json"))["replays"] == 2
    assert "replayed 2 times before" in run("show", name).output
    assert "replayed 2x" in run("list").output


def test_what_was_cut_is_passed_over_and_says_so(run: Callable[..., Result], planner: Planner) -> None:
    send(planner, P0.outcomes, b'{"step_id": "%s"}' % (b"y" * 100_000))
    send(planner, P0.outcomes, b"not json")
    cut = names(planner)[1]

    result = run("replay", "--all")

    assert result.exit_code == 1
    assert result.output == f"Sent back 1. Passed over 1:\n  {cut}  only a part of its 100015 bytes was kept\n"
    assert names(planner) == [cut]
    assert "cannot be replayed: only a part" in run("show", cut).output


def test_an_entry_without_data_is_sent_back_without(run: Callable[..., Result], planner: Planner) -> None:
    planner.client.xadd(P0.outcomes, {"nothing": "here"})
    take(planner)

    run("replay", "--all")

    sent: Any = planner.client.xrange(P0.outcomes)
    assert sent[0][1] == {b"nothing": b"here", b"replays": b"1"}


def test_an_entry_that_names_another_stream_is_not_sent_there(run: Callable[..., Result], planner: Planner) -> None:
    name = dead_letter(planner.client, b"{}", stream="planner:{0}:events")

    assert run("replay", name).exit_code == 1
    assert not planner.client.exists("planner:{0}:events")


def test_a_replay_by_cause_pages_through_and_leaves_the_rest(run: Callable[..., Result], planner: Planner) -> None:
    for _ in range(120):
        dead_letter(planner.client, b"{}", "poison")
    dead_letter(planner.client, b"{}")

    assert told(run("replay", "--cause", "poison", "--json"))["replayed"] == 120
    assert planner.client.xlen(P0.outcomes) == 120
    assert planner.client.xlen(P0.dead) == 1


def test_a_replay_keeps_the_order_in_which_entries_died(run: Callable[..., Result], planner: Planner) -> None:
    for number in range(5):
        dead_letter(planner.client, b"%d" % number)

    run("replay", "--all")

    sent: Any = planner.client.xrange(P0.outcomes)
    assert [fields[b"data"] for _, fields in sent] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("words", [["replay"], ["drop", "--yes"], ["replay", "0/1-1", "--all"]])
def test_it_must_be_said_which_entries_are_meant(run: Callable[..., Result], redis: Redis, words: list[str]) -> None:
    result = run(*words, "--json")

    assert (result.exit_code, told(result)["code"]) == (2, "which_entries")


# --- replay --edit ---


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Make an editor of these shell lines, with the file in $1."""
    script = tmp_path / "editor with space"
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", f"'{script}'")


def replacing(old: str, new: str) -> str:
    """Make a line of an editor that puts `new` in the place of `old`."""
    code = "import pathlib, sys; *words, name = sys.argv[1:]; file = pathlib.Path(name); "
    code += "file.write_text(file.read_text().replace(*words))"
    return shlex.join([sys.executable, "-c", code, old, new]) + ' "$1"'


def test_an_entry_is_edited_checked_and_sent(
    run: Callable[..., Result], planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(planner, keys.GOALS, b'{"goal": 7, "goal_id": "ci-3", "allowed_files": ["b.py"]}')
    (name,) = names(planner)
    editor(tmp_path, monkeypatch, f"cp \"$1\" '{tmp_path}/seen'", replacing("7", '"Fix b"'))

    result = run("replay", name, "--edit", "--json")
    take(planner)

    assert result.exit_code == 0, result.output
    assert (tmp_path / "seen").read_text().startswith('{\n  "goal": 7,\n')
    answer = queries.goal(planner.client, "ci-3")
    assert answer is not None
    assert names(planner) == []


def test_what_is_still_wrong_after_editing_is_not_sent(
    run: Callable[..., Result], planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(planner, keys.GOALS, b'{"goal": 7}')
    (name,) = names(planner)
    editor(tmp_path, monkeypatch, replacing("7", "8"))

    scripted, asked = run("replay", name, "--edit", "--json"), run("replay", name, "--edit", stdin="n\n")

    assert (scripted.exit_code, told(scripted)["errors"][0]["pointer"]) == (2, "/goal")
    assert asked.exit_code == 2
    assert "Edit it again?" in asked.output
    assert names(planner) == [name]
    assert planner.client.xlen(keys.GOALS) == 0


def test_an_edited_goal_whose_id_stands_for_another_body_is_told_so(
    run: Callable[..., Result], planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner.submit(goal_id="ci-5")
    send(planner, keys.GOALS, b'{"goal": "Another", "goal_id": "ci-5"}')
    (name,) = names(planner)
    editor(tmp_path, monkeypatch, replacing("Another", "One more"))

    result = run("replay", name, "--edit", "--json")

    assert (result.exit_code, told(result)["code"]) == (2, "goal_conflict")


@pytest.mark.parametrize(("lines", "code"), [([":"], "not_edited"), (["exit 3"], "not_edited")])
def test_an_editor_that_saves_nothing_sends_nothing(
    run: Callable[..., Result],
    planner: Planner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    code: str,
) -> None:
    name = dead_letter(planner.client, b"{}")
    editor(tmp_path, monkeypatch, *lines)

    result = run("replay", name, "--edit", "--json")

    assert (result.exit_code, told(result)["code"]) == (1, code)
    assert names(planner) == [name]


def test_a_missing_editor_is_a_sentence(
    run: Callable[..., Result], planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")

    result = run("replay", dead_letter(planner.client, b"{}"), "--edit", "--json")

    assert (result.exit_code, told(result)["code"]) == (2, "no_editor")


def test_only_one_entry_can_be_edited(run: Callable[..., Result], redis: Redis) -> None:
    assert told(run("replay", "--all", "--edit", "--json"))["code"] == "one_entry"


# --- drop ---


def test_dropping_asks_first(run: Callable[..., Result], planner: Planner) -> None:
    name = dead_letter(planner.client, b"{}")

    no, scripted = run("drop", name, stdin="n\n"), run("drop", name, "--json")

    assert (no.exit_code, names(planner)) == (1, [name])
    assert f"Delete {name} for good?" in no.output
    assert (scripted.exit_code, told(scripted)["code"]) == (2, "not_asked")
    assert run("drop", name, stdin="y\n").exit_code == 0
    assert names(planner) == []


def test_dropping_by_cause_leaves_the_rest(run: Callable[..., Result], planner: Planner) -> None:
    kept = dead_letter(planner.client, b"{}", "poison")
    dead_letter(planner.client, b"{}")

    assert told(run("drop", "--cause", "invalid_json", "--yes", "--json")) == {"dropped": 1}
    assert names(planner) == [kept]


# --- the cap ---


def test_a_flood_does_not_grow_the_dead_stream_past_its_cap_and_the_rest_is_counted(
    run: Callable[..., Result], redis: Redis
) -> None:
    inbox, entry = (
        Inbox(redis, P0.outcomes, P0.dead, "me", max_dead=100),
        StreamEntry(P0.outcomes, b"1-1", {b"data": b"x"}),
    )
    functions.load(redis)
    pipeline = redis.pipeline(transaction=False)
    for _ in range(1000):
        pipeline.execute_command(*inbox.dead_letter(entry, Problem.of("invalid_json", "x"))[0])
    pipeline.execute()

    assert 100 <= redis.xlen(P0.dead) <= 200  # whole nodes of the stream go
    counted = told(run("list", "--json"))
    assert counted["total"] + counted["forgotten"] == 1000
    assert told(run("drop", "--all", "--yes", "--json"))["dropped"] == counted["total"]
    assert told(run("list", "--json"))["forgotten"] == counted["forgotten"]


def test_the_fields_beside_the_data_are_kept_as_far_as_there_is_room(redis: Redis) -> None:
    dead_letter(redis, b"{}", **{f"field{number}": "v" * 1000 for number in range(40)})

    (dead,) = store.newest(redis, 1, Filter())

    assert sum(len(name) + len(value) for name, value in dead.beside.items()) <= 16 * 1024
    assert len(dead.beside) <= 32
    assert not dead.whole


def test_an_entry_that_nobody_can_read_keeps_no_other_from_being_replayed(
    run: Callable[..., Result], redis: Redis
) -> None:
    problem = {
        "problem": {"code": "poison", "detail": "x"},
        "stream": P0.outcomes,
        "entry": "1-1",
        "size": 2,
        "whole": True,
    }
    redis.xadd(P0.dead, {"problem": codec.dumps(problem), "data": "{}"})
    redis.xadd(P0.dead, {"what": "is this"})

    result = told(run("replay", "--all", "--json"))

    assert (result["replayed"], result["passed_over"]) == (1, 1)
    assert run("list").exit_code == run("show", names_of(redis)[0]).exit_code == 0


def names_of(redis: Redis) -> list[str]:
    return [each.name for each in store.newest(redis, 1, Filter())]


# --- help ---


@pytest.mark.parametrize("command", ["list", "show", "replay", "drop"])
def test_each_command_teaches_with_an_example(run: Callable[..., Result], command: str) -> None:
    assert f"planner dead {command} " in " ".join(run(command, "--help").output.split()) + " "


def test_a_long_look_is_quick(run: Callable[..., Result], redis: Redis) -> None:
    pipeline = redis.pipeline(transaction=False)
    for _ in range(20_000):
        pipeline.xadd(P0.dead, {"problem": b'{"problem":{"code":"poison"}}', "data": b"x" * 100})
    pipeline.execute()
    begun = time.monotonic()

    assert told(run("list", "--json"))["total"] == 20_000
    assert time.monotonic() - begun < 20
