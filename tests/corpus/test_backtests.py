"""The table of docs/policies.md says what two policies would have done to the recorded plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tasks.policy import halt_rules
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.corpus import record
from tests.corpus.backtests import table, tallies

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


@pytest.mark.long
@pytest.mark.outages
def test_the_table_of_the_docs_is_true() -> None:
    assert table(tallies()) in PAGE.read_text()


def test_a_changed_rule_is_shown_by_the_plans_that_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {plan["scene"]["name"]: plan for plan in islice(record.read(), 40)}
    exports = {name: RecordedPlan.read(export) for name, plan in plans.items() if (export := record.export(plan))}
    ended = {
        name
        for name, export in exports.items()
        if replay(export).result is Result.EQUAL and export.plan.get("halt", {}).get("rule") == "consecutive_failures"
    }
    later = [replace(rule, beyond=rule.beyond or rule.name == "consecutive_failures") for rule in halt_rules.RULES]
    monkeypatch.setattr(halt_rules, "RULES", later)

    differing = {name for name, export in exports.items() if replay(export).result is Result.DIFFERENT}

    assert differing == ended
    assert len(ended) > 3
