"""Figures that no attempt can have used: they lift no rule, cost nobody more than the plan's limit, and are told of."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.outcome import Outcome
from tasks.policy.outcome_verdict import MOST, MOST_GROWTH_KB, Wrong, within_range
from tasks.record.lines import Told, read_line
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, PLAN, PYTEST, Running, a_failure, a_report, a_step
from worker.streams.decode import read_outcome
from worker.streams.inbox import StreamEntry

NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    st.sampled_from(["1e400", "-1e400", "9" * 5000, "-" + "9" * 5000, "0.5", "-0.5", "1e-400", "true"]),
)
TENANT = "tenant:default"


def written(number: Any) -> str:
    """A number as JSON has it; no language's own reader or writer changes it on the way."""
    text = str(number)
    return {"inf": "1e999", "-inf": "-1e999"}.get(text, text)


def entry(*fields: str) -> StreamEntry:
    body = ",".join(['"step_id":"a"', f'"plan_id":"{PLAN}"', '"success":true', *fields])
    return StreamEntry(PARTITION.outcomes, b"1-0", {b"data": b"{" + body.encode() + b"}"})


def told(plan: Running, what: str) -> list[dict[str, Any]]:
    entries = plan.store.stream(PARTITION.events).entries.values()
    name = f"dev.planner.{what}.v1".encode()
    return [codec.loads(fields[b"data"]) for fields in entries if fields[b"type"] == name]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["tokens_used", "patch_cycles", "tool_calls", "duration_ms"]), NUMBERS), NUMBERS)
def test_whatever_the_figures_are_an_outcome_is_read_and_applied_within_the_limits(
    metrics: dict[str, Any], growth: Any
) -> None:
    said = ",".join(f'"{name}":{written(value)}' for name, value in metrics.items())
    found = read_outcome(entry(f'"metrics":{{{said}}}', f'"growth_kb":{written(growth)}', f'"x":{written(growth)}'))
    assert isinstance(found, tuple), found
    plan = Running(a_step("a"), a_step("b"), tokens=5000)

    assert plan.report(found[1]) == ["applied"]

    record = plan.record
    assert 0 <= record.spent["tokens"] <= 5000
    assert all(0 <= record.spent[name] <= MOST + 1 for name in ("patch_cycles", "tool_calls"))  # and the other step
    assert 0 <= record.growth.growth_kb <= MOST_GROWTH_KB
    assert codec.loads(plan.store.items(plan.keys.log)[-1])["in"]  # the log stays readable


def test_a_deletion_makes_no_room_for_growth_and_is_nothing_to_tell() -> None:
    plan = Running(*[a_step(name) for name in "abc"], max_growth_kb=10)

    plan.report(a_report("a", growth_kb=-8))
    plan.report(a_report("b", growth_kb=12))

    assert plan.halt["rule"] == "file_growth"
    assert told(plan, "outcome.out_of_range") == []


def test_a_figure_below_nothing_counts_as_nothing_and_is_told_of() -> None:
    plan = Running(a_step("a"), a_step("b"), tool_calls=5)

    plan.report(a_report("a", metrics={"tokens_used": -(10**6), "tool_calls": -3, "patch_cycles": 1}))

    assert (plan.record.spent["tokens"], plan.record.spent["tool_calls"]) == (0, 0)
    (event,) = told(plan, "outcome.out_of_range")
    assert (event["step_id"], event["attempt"]) == ("a", 1)
    assert event["figures"] == {
        "tokens_used": {"told": -(10**6), "counted": 0},
        "tool_calls": {"told": -3, "counted": 0},
    }


def test_a_plan_costs_its_tenant_its_limit_at_most() -> None:
    store = MemoryStore(PARTITION)
    store.budgets = {TENANT: 20_000}
    plan = Running(a_step("a"), a_step("b"), store=store, budgets=[TENANT], tokens=5000, max_parallel=1)

    plan.report(a_report("a", metrics={"tokens_used": 10**12}))

    assert plan.record.spent["tokens"] == 5000
    assert store.granted[store.now // 86_400_000, TENANT] - store.grants([TENANT])[TENANT].left == 5000
    assert told(plan, "outcome.out_of_range")[0]["figures"] == {"tokens_used": {"told": 10**12, "counted": 5000}}
    assert plan.halt["rule"] == "budget"


def test_attempts_beside_each_other_cost_no_more_than_the_limit_either() -> None:
    plan = Running(*[a_step(name) for name in "abc"], tokens=3000, max_parallel=3)

    plan.report(*[a_failure(name, metrics={"tokens_used": 2500}) for name in "abc"])

    assert plan.record.spent["tokens"] <= 3000


@pytest.mark.parametrize("code", ["0.5", "-0.5", "1e400", "9" * 5000, "-1", "2.0"])
def test_no_exit_code_is_rounded_to_one_that_passes(code: str) -> None:
    found = read_outcome(entry(f'"verify":[{{"tool":"pytest","exit_code":{code}}}]'))
    assert isinstance(found, tuple), found
    plan = Running(a_step("a", tools=(PYTEST,)), a_step("b"))

    plan.report(found[1])

    previous = plan.steps["a"].previous
    assert previous is not None
    assert previous["category"] == "TEST_REGRESSION"


@pytest.mark.parametrize("number", ["1e400", "9" * 40, "-" + "9" * 5000])
def test_an_answer_with_a_number_beyond_all_measure_can_be_kept(number: str) -> None:
    found = read_outcome(entry(f'"output":{{"n":{number}}}'))
    assert isinstance(found, tuple), found

    assert codec.dumps(found[1].outcome.output)
    assert codec.loads(found[1].raw)["output"] == found[1].outcome.output


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "-" + "9" * 400, "9" * 5000])
@pytest.mark.parametrize("name", ["tokens_used", "input_tokens", "cost_usd"])
def test_a_figure_beyond_all_measure_leaves_the_log_readable(name: str, number: str) -> None:
    found = read_outcome(entry(f'"metrics":{{"{name}":{number}}}'))
    assert isinstance(found, tuple), found
    plan = Running(a_step("a"), a_step("b"))

    assert plan.report(found[1]) == ["applied"]

    assert codec.loads(plan.store.items(plan.keys.log)[-1])["in"]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000, "1" + "0" * 30, "1.0", "1E5"])
@pytest.mark.parametrize("said", ['"x":{}', '"output":[{}]', '"metrics":{{"tokens_used":{}}}'])
def test_the_digest_of_an_outcome_is_that_of_what_the_log_has(said: str, number: str) -> None:
    plan = Running(a_step("a"), a_step("b"))
    sent = entry(said.format(number))
    found = read_outcome(sent)
    assert isinstance(found, tuple), found
    assert plan.report(found[1]) == ["applied"]

    line = read_line(plan.store.items(plan.keys.log)[-1])
    kept = line["in"][0][3]
    raw = kept.raw if isinstance(kept, Told) else codec.dumps(kept)

    assert plan.steps["a"].digest == blake2b(raw, digest_size=9).hexdigest()
    again = read_outcome(sent)
    assert isinstance(again, tuple)
    assert plan.report(again[1]) == ["duplicate"]


@pytest.mark.parametrize("words", ['"0.02 USD"', "[]", "{}", "null", '""'])
def test_words_under_a_name_that_came_later_cost_nobody_an_outcome(words: str) -> None:
    found = read_outcome(entry(f'"metrics":{{"tokens_used":7,"cost_usd":{words},"cached_tokens":{words}}}'))
    assert isinstance(found, tuple), found

    metrics = found[1].outcome.metrics
    assert metrics is not None
    assert (metrics.tokens_used, metrics.cost_usd, metrics.cached_tokens) == (7, None, None)


@pytest.mark.parametrize("body", [b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e400', b'{"a":1e400,"b":"\\ud800"}'])
def test_what_is_no_json_stays_so(body: bytes) -> None:
    assert codec.load_bounded(body) is None


def test_an_outcome_without_odd_figures_is_left_as_it_is() -> None:
    outcome = Outcome(step_id="a", success=True, growth_kb=3)

    same, wrong = within_range(outcome)

    assert same is outcome
    assert wrong == {}
    assert Wrong(1, 0) == (1, 0)
