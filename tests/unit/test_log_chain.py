"""Each line of a plan's log names the line before it, and the plan names its newest line."""

from __future__ import annotations

import dataclasses

from schemas import codec
from schemas.step import PlannedStep, pack_step
from schemas.stored import LogHead, read_part
from schemas.stored.step import complete
from tasks.base.log_chain import digest_line
from tasks.handlers.birth import setting_data
from tasks.handlers.goals import CHUNK
from tasks.plan.snapshot import Clocks, StandingCommand
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules.strategy import Drafted, Setting
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.commands import an_order
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, PLAN, Running, a_goal, a_plan, a_report, a_step, some_steps
from tests.support.surroundings import TENANT
from worker.store.plans import Ask, Write


def head_of(plan: Running) -> LogHead:
    return plan.record.log


def chained(plan: Running) -> list[bool]:
    """Say of each stored line whether it names the one before it."""
    stored = plan.store.items(plan.keys.log)
    before = ["", *map(digest_line, stored)]
    return [codec.loads(line).get("prev") == named for line, named in zip(stored, before, strict=False)]


def test_every_line_but_the_first_names_the_line_before_it() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    plan.report(a_report("a"))
    plan.report(a_report("b"))

    newest = digest_line(plan.store.items(plan.keys.log)[-1])
    assert chained(plan) == [False, True, True]
    assert head_of(plan) == LogHead(newest, 3)
    assert len(newest) == 32


def test_a_plan_that_is_created_in_several_commits_has_one_chain() -> None:
    plan = Running(*some_steps(2 * CHUNK + 1))

    assert chained(plan)[:3] == [False, True, True]
    assert all(chained(plan)[1:])


def test_a_commit_without_a_line_leaves_the_head_as_it_is() -> None:
    plan = Running(a_step("a"))
    before = head_of(plan)
    unit = UnitOfWork(plan.begin(Ask(PLAN)))
    unit.wake_at(1)

    plan.store.commit([Write(unit.close())])

    assert head_of(plan) == before
    assert len(plan.log) == before.lines


def test_a_line_names_its_code_where_the_line_before_has_another() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "b"))
    for step, code in (("a", "1.0"), ("b", "1.0"), ("c", "1.1")):
        view = dataclasses.replace(plan.begin(Ask(PLAN)), code=code)
        unit = UnitOfWork(view)
        unit.inputs.append([step])
        unit.plan.dirty.add("live")
        plan.store.commit([Write(unit.close())])

    assert [line.get("by") for line in plan.log] == [None, "1.0", None, "1.1"]


def test_a_creation_goes_on_in_the_chain_of_the_one_that_was_cut_short() -> None:
    (change,) = a_plan(a_step("a"), version=3, born={"log_head": LogHead("x" * 32, 3, "1.0"), "code": "1.0"})

    line = codec.loads(change.log)
    assert (line["version"], line["prev"], "by" in line) == (4, "x" * 32, False)
    assert read_part(codec.loads(change.fields["live"]), LogHead).lines == 4


def test_the_line_of_a_creation_says_what_it_read_and_what_it_began_with() -> None:
    setting = Setting(
        drafter="queue", history={"failures": 2}, options={"style": "short"}, drafted=(Drafted("x"), Drafted([2**64]))
    )
    goal = a_goal(kind="campaign", files=["src/a.py"])

    assert setting_data(goal, CATALOGUE, setting) == {
        "drafter": "queue",
        "options": {"style": "short"},
        "recalled": {"failures": 2},
        "drafts": [{"tokens": 0, "error": None, "output": digest_line(said)} for said in (b'"x"', b"[%d]" % 2**64)],
    }
    assert setting_data(goal, CATALOGUE, Setting()) == {}


def test_the_line_of_a_creation_names_the_goal_and_the_steps_by_their_digests() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    born = plan.log[0]["born"]

    assert born["plan_id"] == PLAN
    assert born["goal"] == digest_line(plan.store.hash(plan.keys.plan)["goal"])
    packed = [pack_step(PlannedStep(**plan.facts[step])) for step in ("a", "b")]
    assert born["steps"] == {"count": 2, "digest": digest_line(b"\n".join(packed))}
    assert born["limits"]["tokens"] == 10**8
    assert not any("born" in line for line in plan.log[1:])


def test_the_line_of_a_rewrite_has_the_spec_as_it_was() -> None:
    plan = Running(a_step("a"), a_step("b", "a", files=("src/b.py", "src/c.py")))
    before = plan.facts["b"]

    plan.obey(an_order("tighten", "b", {"allowed_files": ["src/b.py"]}))

    assert complete(plan.log[-1]["was"]["b"]) == before
    assert plan.facts["b"] == {**before, "allowed_files": ["src/b.py"]}


def test_the_event_of_the_end_has_the_head_and_the_number_of_lines() -> None:
    done, halted = Running(a_step("a")), Running(a_step("a"))
    done.report(a_report("a"))
    halted.report(a_report("a", touched_files=["etc/passwd"]))

    for plan, what in ((done, "completed"), (halted, "halted")):
        told = [data for change in plan.changes for name, data in change.events if f".plan.{what}." in name]
        newest = plan.store.items(plan.keys.log)[-1]
        heads = [(said["head"], said["lines"]) for said in map(codec.loads, told)]
        assert heads == [(digest_line(newest), len(plan.log))]


def test_a_line_tells_what_stood_around_the_plan() -> None:
    store = MemoryStore(PARTITION)
    store.budgets = {TENANT: 100_000}
    store.give(TENANT, 5000)
    plan = Running(a_step("a"), a_step("b", "a"), store=store, budgets=[TENANT], tenant="acme")
    plan.short_of_memory = True

    plan.report(a_report("a"))

    assert plan.log[-1]["around"] == {"grants": {TENANT: [4000, False]}, "memory": True}
    assert "around" not in Running(a_step("a")).log[0]


def test_paused_queues_are_told_in_one_order() -> None:
    plan = Running(a_step("a"))
    unit = UnitOfWork(plan.begin(Ask(PLAN)))
    queues = [f"q{number}" for number in range(8)]
    unit.kept = {f"step-{queue}": queue for queue in queues}
    unit.snapshot.paused_queues = {
        queue: StandingCommand("pause", f"queue:{queue}", "", "", "", 9) for queue in reversed(queues)
    }
    unit.inputs.append(["queue resumed"])
    unit.wake_at(1)

    around = codec.loads(unit.close().log or b"{}")["around"]

    assert [*around["paused_until"]] == queues


def test_a_lease_that_ran_out_is_told_as_it_was_read() -> None:
    plan = Running(a_step("a"))
    plan.store.claim(PLAN, "a", "ctl-7")
    claimed = plan.store.now
    plan.clocks = Clocks(down=7)
    plan.store.wait(400_000)
    plan.sweep()

    told = plan.log[-1]["around"]
    assert told["leases"] == {"a": [1, claimed, claimed, "ctl-7", 0]}
    assert told["clocks"] == [0, 7, 0]
