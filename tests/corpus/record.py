"""The corpus as a file: made by fleets, read back, and held against what the planner does today."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from schemas import codec
from tasks.record.held_plan import HeldPlan
from tasks.record.replay import cut, differing_parts
from tests.corpus.fleet import CREWS, Crew, Fleet
from tests.corpus.goals import SCENES
from tests.corpus.play import Input, Player, Scene, play
from tests.support.plans import PARTITION, PLAN
from tests.support.replay import export_of

FILE = Path(__file__).with_name("plans.jsonl.gz")
MOST_INPUTS = 90
LONG = frozenset({"supplied-many"})  # recorded with one crew: their specs would fill the file
ROUNDS = {"supplied-patient": 6, "supplied-risky": 6}  # recorded several times: much can become of them
Recorded = dict[str, Any]  # scene, inputs, and what `play` returns


def make() -> Iterator[Recorded]:
    """Let each crew work on each goal; a goal of which no plan runs is recorded once."""
    for name, scene in SCENES.items():
        for number, (crew_name, crew) in product(range(ROUNDS.get(name, 1)), CREWS.items()):
            recorded = _one({"name": f"{name}-{crew_name}" + f"-{number}" * bool(number), **scene}, crew)
            yield recorded
            if not recorded["inputs"] or name in LONG:
                break


def _one(scene: Scene, crew: Crew) -> Recorded:
    player = Player(scene)
    fleet = Fleet(player, scene["goal"].get("kind", "task"), crew, scene["name"])
    inputs: list[Input] = []
    while not player.is_over and len(inputs) < MOST_INPUTS:
        chosen = codec.loads(codec.dumps(fleet.choose()))  # as it will be read back
        inputs.append(chosen)
        player.play(chosen)
    return {"scene": scene, "inputs": inputs, **play(scene, inputs)}


def read() -> Iterator[Recorded]:
    """Read the recorded plans."""
    with gzip.open(FILE, "rb") as lines:
        for line in lines:
            yield codec.loads(line)


def write(plans: Iterator[Recorded]) -> int:
    """Write recorded plans; the same plans give the same bytes. Returns how many there were."""
    count = 0
    with FILE.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
        for count, plan in enumerate(plans, 1):  # noqa: B007 - the last one is how many there were
            packed.write(codec.dumps(plan) + b"\n")
    return count


def again(recorded: Recorded) -> Recorded:
    """Play the inputs of a recorded plan to the planner of today."""
    found = {"scene": recorded["scene"], "inputs": recorded["inputs"]}
    fresh: Recorded = codec.loads(codec.dumps({**found, **play(recorded["scene"], recorded["inputs"])}))
    return fresh


def export(recorded: Recorded) -> bytes | None:
    """Write what `planner export` would; None where there was nothing to do."""
    if recorded["nothing"] is not None:
        return None
    k, state = PARTITION.plan(PLAN), recorded["state"]
    held = HeldPlan(PLAN, PARTITION.outcomes, PARTITION.lease_prefix(PLAN), ready=dict(state[k.ready]))
    for part, key in ((held.fields, k.plan), (held.steps, k.steps), (held.status, k.status)):
        part.update({name: str(value).encode() for name, value in state[key].items()})
    held.active.update({step: raw.encode() for step, raw in state[k.active].items()})
    held.todo += [item.encode() for item in state["todo"]]
    held.log += [line.encode() for output in recorded["outputs"] for line in output.get("log", ())]
    return export_of(held)


def difference(old: Recorded, new: Recorded) -> str | None:
    """Tell the first thing that came out otherwise, with the input before it, and how the state differs at the end."""
    if old == new:
        return None
    name, inputs = old["scene"]["name"], old["inputs"]
    told = []
    for number, (was, now) in enumerate(zip(old["outputs"], new["outputs"], strict=False)):
        if was != now:
            given = "the goal" if number == 0 else _short(inputs[number - 1])
            told = [f"{name}: output {number}, after {given}", *_parts(was, now)]
            break
    ends = ({"nothing": each["nothing"], **_flat(each["state"])} for each in (old, new))
    return "\n".join([*told, f"{name}: the end", *_parts(*ends)])


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    """Name each field of each key of a state."""
    return {
        f"{key} {field}": value
        for key, fields in state.items()
        for field, value in (fields.items() if isinstance(fields, dict) else [("", fields)])
    }


def _parts(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [f"    {part.name}\n      - {part.was}\n      + {part.now}" for part in differing_parts(was, now)]


def _short(value: Any) -> str:
    return cut(codec.dumps(value).decode())
