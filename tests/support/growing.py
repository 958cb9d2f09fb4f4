"""A plan that expands as its test says: its strategy's methods are the fields of a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tasks.policy import expansion
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.toolchain.catalogue import Catalogue
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running

FILES = [f"src/{name}.py" for name in "abcdefgh"]


def goes_on(*steps: Any, state: Any = None, **said: Any) -> Expansion:
    """An unfolding that adds these steps."""
    return Expansion(state or {}, {"kind": "test"}, "the test says so", steps, **said)


@dataclass
class Script:
    """A scripted strategy; `ends` are the ends of steps that it received, in order."""

    on_end: Callable[[LivePlan, End], Expansion | None] = lambda *_: None
    on_answer: Callable[[LivePlan, Any], Expansion | str] = lambda *_: "no answer is expected"
    on_stuck: Callable[[LivePlan], Expansion | None] = lambda *_: None
    refuses: Callable[[Any], str | None] = lambda _: None
    gives: Callable[[LivePlan], Mapping[str, Any] | None] = lambda _: None
    ends: list[End] = field(default_factory=list)

    def refusal(self, _: LivePlan, __: Mapping[str, Any], output: Any) -> str | None:
        return self.refuses(output)

    def input_for(self, live: LivePlan, _: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.gives(live)

    def advance(self, live: LivePlan, end: End, _: Catalogue) -> Expansion | None:
        self.ends.append(end)
        return self.on_end(live, end)

    def answer(self, live: LivePlan, value: Any, _: Catalogue) -> Expansion | str:
        return self.on_answer(live, value)

    def stuck(self, live: LivePlan, _: Catalogue) -> Expansion | None:
        return self.on_stuck(live)


def growing(patch: pytest.MonkeyPatch, script: Script, *steps: Any, question: Any = None, **said: Any) -> Running:
    """A plan of these first steps, or one that asks, in a memory store."""
    patch.setattr(expansion, "strategy_of", lambda _: script)
    draft = {"state": {}, "document": {"kind": "test"}, "question": question}
    more = {"store": MemoryStore(PARTITION), "kind": "campaign", "files": FILES, "repo": "acme/shop"}
    return Running(*steps, draft=draft | said.pop("draft", {}), **more | said)
