"""Generates invalid entries from a seed: valid messages with wrong parts, and random bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from worker.store import keys
from worker.store.keys import Partition

NESTED = "@nested {}@"  # placeholder of a value too deep for json, which is inserted later
RAW = ("NaN", "-Infinity", "1e400", "01", '"\\ud800"', '"\\u0000"', "truefalse")
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 2**31, 2**63, 10**30, "", " ", "0", "x" * 300, "\x00", "\u202e", "../..", "plan_zz-1"),
    *([], {}, [[]], [None], ["x"] * 200, {"": {}}, {"a": [1, {"b": None}]}),
    *(f"@raw {raw}@" for raw in RAW),
    *(NESTED.format(depth) for depth in (30, 150, 500, 3000)),
)
ELSEWHERE = (f"plan_00-{1:032x}", f"plan_01-{2:032x}", f"plan_ff-{3:032x}", "plan_00-1", "plan_01-" + "F" * 32)
TENANTS = ("t-0", "t-1", "t-2")
RARE = "t-9"  # whom orders about whole tenants are about: each looks at every plan of it
CATEGORIES = ("TEST_REGRESSION", "LEASE_EXPIRED", "SANDBOX_VIOLATION", "FLAKY_TEST", "who knows")

Entry = tuple[str, dict[bytes, bytes]]  # stream, fields


class Forge:
    """Makes entries for every inbound stream. `specs` are attempts in flight that outcomes may be about."""

    def __init__(self, seed: int, partitions: int) -> None:
        self._rng = Random(seed)
        self._partitions = partitions
        self._made = 0
        self.specs: Sequence[dict[str, Any]] = ()

    def entry(self) -> Entry:
        """Make the next entry."""
        self._made += 1
        kinds: list[Callable[[], tuple[str, dict[str, Any]]]] = [self._outcome, self._goal, self._order, self._wide]
        stream, message = self._rng.choices(kinds, (60, 15, 20, 5))[0]()
        if self._rng.random() < 0.03:
            return stream, self._noise()
        for _ in range(self._rng.choice((0, 0, 0, 0, 1, 1, 2, 3))):
            self._spoil(message)
        return stream, self._fields(self._encoded(message))

    def _any_partition(self) -> Partition:
        return Partition(self._rng.randrange(self._partitions))

    def _plan(self) -> str:
        known: list[str] = [spec["plan_id"] for spec in self.specs]
        return self._rng.choice([*known, *ELSEWHERE])

    def _outcome(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        spec = rng.choice(self.specs) if self.specs else {"step_id": "s-0"}
        message: dict[str, Any] = {name: spec.get(name) for name in ("step_id", "plan_id", "attempt", "lease")}
        message |= {
            "success": rng.random() < 0.6,
            "tests_passed": rng.choice((True, False, None)),
            "touched_files": list(spec.get("allowed_files", ())) + rng.choice(([], ["elsewhere"])),
            "metrics": {"tokens_used": rng.randrange(10**4), "patch_cycles": 1, "tool_calls": 0},
            "failure_evidence": {"category": rng.choice(CATEGORIES), "top_failing_tests": ["t.py::t"]},
            "created_files": [],
            "growth_kb": rng.randrange(-5, 5),
            "verify": [{"tool": "pytest", "exit_code": rng.randrange(3)}],
            "output": rng.choice((None, {"a": [1, 2]}, "words")),
        }
        return self._any_partition().outcomes, message

    def _goal(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        steps = [
            {"step_id": f"s-{n}", "title": "t", "intent": "i", "allowed_files": [f"src/f{n}.py"], "depends_on": after}
            for n, after in enumerate(rng.choice(([[]], [[], ["s-0"]], [[], [], ["s-0", "s-1"]])))
        ]
        message: dict[str, Any] = {
            "goal": rng.choice(("Fix it", "Add a feature", "rm -rf /", "\u202efix")),
            "goal_id": rng.choice((None, f"g-{rng.randrange(10**6)}", f"g-{rng.randrange(20)}")),
            "tenant": rng.choice((*TENANTS * 15, RARE)),
            "allowed_files": rng.choice((["src/f0.py", "src/f1.py", "src/f2.py"], ["../x"], ["**"], [".env"])),
            "limits": {"tokens": rng.choice((1000, 10**5)), "max_parallel": rng.randint(1, 4)},
            "context": {"repo": f"acme/{rng.randrange(50)}", "language": "python", "files": ["src/f0.py"]},
            "approvals": rng.choice(([], ["LOW"], ["HIGH"])),
            "steps": rng.choice((steps, steps, None)),
        }
        return keys.GOALS, {name: value for name, value in message.items() if value is not None}

    def _order(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        words = ("pause", "resume", "cancel", "halt", "approve", "reject", "answer", "skip", "tighten", "top_up")
        word = rng.choice(words)
        fits = "step" if word in ("approve", "reject", "skip") else "plan"
        scope = rng.choice(("plan", "step", *[fits] * 6))
        message: dict[str, Any] = {
            "command_id": f"c-{rng.choice((self._made, rng.randrange(20)))}",
            "command": word,
            "scope": scope,
            "plan_id": self._plan(),
            "step_id": f"s-{rng.randrange(3)}" if scope == "step" else None,
            "actor": "forge",
            "reason": "to see what happens",
            "value": rng.choice((None, {"tokens": 1000}, {"allowed_files": []}, {"risk_level": "HIGH"}, {"x": 1})),
            "until": rng.choice((None, None, "2030-01-01T00:00:00Z", "2001-01-01T00:00:00Z")),
        }
        return self._any_partition().commands, message

    def _wide(self) -> tuple[str, dict[str, Any]]:
        _, message = self._order()
        scope = self._rng.choice(("tenant", "repository"))
        message |= {"scope": scope, "target": RARE if scope == "tenant" else "acme/none", "plan_id": None}
        return keys.COMMANDS, message

    def _spoil(self, message: dict[str, Any]) -> None:
        """Make one thing wrong, at any depth."""
        rng = self._rng
        inner = [value for value in message.values() if isinstance(value, dict)]
        where = rng.choice([message, message, *inner])
        name = rng.choice([*where, "unknown"]) if where else "unknown"
        how = rng.random()
        if how < 0.15:
            where.pop(name, None)
        elif how < 0.2:
            where[name] = "x" * rng.choice((5000, 70_000, 300_000)) if rng.random() < 0.1 else "x" * 2000
        elif how < 0.35 and "plan_id" in message:
            message["plan_id"] = self._plan()
        elif how < 0.45 and "lease" in message:
            message["lease"] = rng.choice(("0" * 24, "", "wrong"))
        elif how < 0.55 and "attempt" in message:
            message["attempt"] = rng.choice((0, 1, 2, 10**6, 10**7))
        else:
            where[name] = deepcopy(rng.choice(ODD))

    def _encoded(self, message: dict[str, Any]) -> bytes:
        text = json.dumps(message, ensure_ascii=self._rng.random() < 0.8)
        for raw in RAW:
            text = text.replace(json.dumps(f"@raw {raw}@"), raw)
        for depth in (30, 150, 500, 3000):
            text = text.replace(f'"{NESTED.format(depth)}"', "[" * depth + "]" * depth)
        data, how = text.encode(errors="surrogatepass"), self._rng.random()
        if how < 0.03:
            return data[: self._rng.randrange(len(data))]
        if how < 0.06:
            place = self._rng.randrange(len(data))
            return data[:place] + self._rng.randbytes(1) + data[place + 1 :]
        if how < 0.08:
            return self._rng.choice((b"\xef\xbb\xbf", b" \n", b"[", b"\x00")) + data
        return data

    def _fields(self, data: bytes) -> dict[bytes, bytes]:
        """Return the fields of an entry, sometimes with other fields in addition to the message or instead of it."""
        rng, fields = self._rng, {b"data": data}
        if rng.random() < 0.1:
            names = (b"id", b"attempt", b"plan_id", b"lease", b"step_id", b"type", b"\xff\x00", b"")
            values = (b"", b"0", b"1", b"9" * 5000, b"\xff\xfe", b"plan_00-x", self._plan().encode(), rng.randbytes(20))
            fields[rng.choice(names)] = rng.choice(values)
        if rng.random() < 0.02:
            fields.pop(b"data")
            fields[b"text"] = data[:100]
        return fields

    def _noise(self) -> dict[bytes, bytes]:
        """Make an entry of random bytes."""
        rng = self._rng
        names = [b"data", *(rng.randbytes(rng.randrange(8)) for _ in range(rng.randrange(4)))]
        rng.shuffle(names)
        return {name: rng.randbytes(rng.randrange(60)) for name in names[: rng.randint(1, 4)]}
