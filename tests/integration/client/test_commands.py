"""Commands print over HTTP, to the byte, what they print by Redis."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.api_key import Right
from tests.support.gateway import Gateway
from tests.support.planner import SHAPES, Planner, asking, completed, executing, halted
from worker.cli.commands.app import app
from worker.host import nearby_server

# What is another one at each look: ages, times of export, ids that are made anew, and positions.
CHANGING = re.compile(
    r'"(?:seen_at|idle_ms|oldest_ms|exported_at|goal_id|command_id|spent|id)": ?(?:"[^"]*"|\d+)|retry-[0-9a-f]{32}'
    r"| \(key [0-9a-f]+\)| *\b\d+ (?:ms|s|min)\b *|wall[_ ]clock[^\n]*"
)

# A command that lasts a second counts on stderr, which depends on how busy the machine is.
PROGRESS = re.compile(r"^[a-z ]+: [\d,]+ \.\.\.\n", re.MULTILINE)

POLICY = Path(__file__).parents[3] / "docs" / "examples" / "policy-strict.toml"

Ask = Callable[..., Result]


@pytest.fixture
def by_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command that asks Redis."""
    monkeypatch.setenv("COLUMNS", "120")
    env = {"PLANNER_REDIS_URL": redis_url, "PLANNER_URL": None, "PLANNER_API_KEY": None}
    return lambda *words, stdin=None: CliRunner().invoke(app, [*map(str, words)], env=env, input=stdin)


@pytest.fixture
def over_http(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command that asks the gateway, with a key for everything unless it is given another one."""
    monkeypatch.setenv("COLUMNS", "120")
    admin = gateway.key(Right.ADMIN)

    def ask(*words: object, stdin: str | None = None, key: str = admin) -> Result:
        env = {"PLANNER_REDIS_URL": None, "PLANNER_URL": gateway.url, "PLANNER_API_KEY": key}
        return CliRunner().invoke(app, [*map(str, words)], env=env, input=stdin)

    return ask


def assert_alike(by_redis: Ask, over_http: Ask, words: Sequence[object]) -> None:
    """Ask both; what shows a clock may have moved on between, so that they are asked once more then."""
    for _ in range(3):
        ours, theirs = by_redis(*words), over_http(*words)
        found = [
            (each.exit_code, CHANGING.sub("?", each.stdout), PROGRESS.sub("", each.stderr)) for each in (ours, theirs)
        ]
        if found[0] == found[1]:
            return
    assert found[1] == found[0], words
    raise AssertionError(words)


OFTEN = (halted,)  # the other shapes take seconds, and rarely tell of another fault


@pytest.mark.parametrize(
    "shape",
    [pytest.param(each, id=each.__name__, marks=() if each in OFTEN else pytest.mark.outages) for each in SHAPES],
)
def test_a_plan_is_told_of_alike(
    planner: Planner, by_redis: Ask, over_http: Ask, shape: Callable[[Planner], str]
) -> None:
    plan_id = shape(planner)
    has_ended = planner.view(plan_id).ended_at is not None

    for words in (
        ("show", plan_id),
        ("show", plan_id, "--json", "--all"),
        ("explain", plan_id),
        ("explain", plan_id, "--json"),
        ("summary", plan_id),
        ("attempt", plan_id, "look"),
        ("document", plan_id, "--dir", "no-such-folder"),
        ("export", plan_id),
        ("backtest", "--policy", POLICY, plan_id),
        *((("watch", plan_id), ("watch", plan_id, "--json"), ("retry", plan_id, "--print")) if has_ended else ()),
    ):
        assert_alike(by_redis, over_http, words)


@pytest.mark.outages
def test_lists_are_alike(planner: Planner, by_redis: Ask, over_http: Ask) -> None:
    made = [completed(planner), halted(planner), asking(planner), executing(planner)]
    for number in range(3):
        planner.submit(goal_id=f"ci-{number}", tenant="acme", context={"repo": "acme/shop"})

    for words in (
        ("plans",),
        ("plans", "--json"),
        ("plans", "--limit", 3),
        ("plans", "--state", "halted"),
        ("plans", "--tenant", "acme", "--repo", "acme/shop", "--kind", "task", "--since", "1h", "--json"),
        ("plans", "--until", "2026-01-01T00:00:00Z"),
        ("plans", "--waiting"),
        ("plans", "--rule", "allowlist"),
        ("plans", "--limit", 2, "--cursor", "start", "--json"),
        ("plans", "--limit", 2, "--cursor", "start"),
        ("plans", "--cursor", "nonsense"),
        ("plans", "--id-prefix", made[0][5:9]),
        ("show", "ci-1", "--tenant", "acme", "--json"),
        ("show", "nobody"),
        ("show", ""),
        ("show", "no goal/../id?x=1"),
        ("explain", made[0], "no-such-step"),
        ("queues",),
        ("queues", "--json"),
        ("controllers",),
        ("controllers", "--json"),
    ):
        assert_alike(by_redis, over_http, words)


@pytest.mark.outages
def test_ambiguous_names_are_refused_alike(planner: Planner, by_redis: Ask, over_http: Ask) -> None:
    made = [planner.submit() for _ in range(40)]
    begins = [plan_id[5:6] for plan_id in made]
    twice = next(one for one in begins if begins.count(one) > 1)

    assert_alike(by_redis, over_http, ("show", twice))
    assert over_http("show", twice).exit_code == 2


@pytest.mark.outages
def test_a_plan_of_many_steps_is_told_of_whole(planner: Planner, by_redis: Ask, over_http: Ask) -> None:
    steps: list[dict[str, Any]] = [
        {"step_id": f"s-{number}", "title": "t", "intent": "i", "verify": "pytest"} for number in range(1203)
    ]
    plan_id = planner.submit(steps=steps, limits={"max_steps": 2000})

    assert_alike(by_redis, over_http, ("show", plan_id, "--json"))


def test_who_may_only_send_goals_waits_by_what_became_of_them(
    planner: Planner, gateway: Gateway, over_http: Ask
) -> None:
    key = gateway.key(Right.PRODUCER, tenant="acme")
    sent = over_http(
        "submit", "--goal", "Fix it", "--file", "a.py", "--goal-id", "ci-1", "--no-fill", "--json", key=key
    )
    planner.container.goal_consumer.drain()
    again = over_http(
        *("submit", "--goal", "Fix it", "--file", "a.py", "--goal-id", "ci-1", "--no-fill", "--wait", "--json"), key=key
    )
    other = over_http("submit", "--goal", "Fix that", "--goal-id", "ci-1", "--no-fill", "--json", key=key)

    assert (sent.exit_code, codec.loads(sent.stdout)["verdict"]) == (0, None)
    assert (again.exit_code, codec.loads(again.stdout)["verdict"]) == (0, "PLANNED"), again.output
    assert (other.exit_code, codec.loads(other.stdout)["code"]) == (1, "goal_conflict")
    theirs = over_http("show", "ci-1", key=gateway.key(Right.VIEWER, tenant="other"))
    assert theirs.exit_code == 3


@pytest.mark.parametrize("words", [("dead", "list"), ("doctor",), ("partitions",), ("worker",)])
def test_what_works_on_redis_itself_says_so(over_http: Ask, words: Sequence[str]) -> None:
    answer = over_http(*words)

    assert (answer.exit_code, answer.stderr) == (
        2,
        "This command works on Redis itself, and PLANNER_URL names a gateway: set PLANNER_REDIS_URL.\n",
    )


def test_two_addresses_no_key_and_a_wrong_one_are_told_in_a_sentence(gateway: Gateway, redis_url: str) -> None:
    def run(**env: str | None) -> Result:
        usual: dict[str, str | None] = {"PLANNER_REDIS_URL": None, "PLANNER_URL": gateway.url, "PLANNER_API_KEY": None}
        return CliRunner().invoke(app, ["plans"], env={**usual, **env})

    assert "are both set" in run(PLANNER_REDIS_URL=redis_url).stderr
    assert "set PLANNER_API_KEY" in run().stderr
    for key in ("pk_abcdef_0123456789", "pk_with\nbreak", "pk_\u00e9"):
        refused = run(PLANNER_API_KEY=key)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1 if key.isprintable() and key.isascii() else 2, 1)
        assert key not in refused.output
    away = run(PLANNER_URL="http://127.0.0.1:9", PLANNER_API_KEY="pk_a_b")
    assert (away.exit_code, "does not answer" in away.stderr) == (1, True)


def test_nothing_of_a_key_is_in_an_error(gateway: Gateway, over_http: Ask, redis: Redis) -> None:
    key = gateway.key(Right.CONTROLLER)
    refused = over_http("plans", "--json", key=key)

    assert (refused.exit_code, codec.loads(refused.stdout)["code"]) == (1, "no_right")
    assert key not in refused.output
    assert not redis.keys(f"*{key}*")


def test_the_gateway_of_planner_up_is_shown_its_own_key_and_no_other_is(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / nearby_server.API_KEY).write_text(gateway.key(Right.ADMIN))
    (tmp_path / nearby_server.GATEWAY_URL).write_text(gateway.url)
    env = {"PLANNER_REDIS_URL": None, "PLANNER_API_KEY": None, "PLANNER_DATA_DIR": str(tmp_path)}

    assert CliRunner().invoke(app, ["plans"], env={**env, "PLANNER_URL": f"{gateway.url}/"}).exit_code == 0
    elsewhere = gateway.url.replace("127.0.0.1", "localhost")
    other = CliRunner().invoke(app, ["plans"], env={**env, "PLANNER_URL": elsewhere})
    assert (other.exit_code, "it wants a key" in other.stderr) == (2, True)
