"""The demo of the kind `gap_report`: what real tools found is closed by a real fleet, and nothing is left of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.demos import played, processes_of
from worker.demo import engine


@pytest.mark.long
@pytest.mark.outages
def test_every_gap_is_closed_in_its_order_and_nothing_is_left(place: Path) -> None:
    demo = played(place, "--kind", "gap_report", "--json")

    told = demo.told
    assert (told["kind"], told["tests_passed"], told["completed"]["state"]) == ("gap_report", True, "COMPLETED")
    last = told["completed"]["document"]
    assert last["iteration_id"].startswith("iter-0003-")  # ruff and pytest went before
    assert (last["gap"]["category"], last["actions"][0]["target_files"]) == ("inbox", ["till/receipt.py"])
    assert "Constraint kept: Do not touch till/stock.py" in last["acceptance_criteria"]
    for change in (
        "-import math",
        "-import json",
        "+    return price + (price * percent + 50) // 100",
        "+def receipt(",
    ):
        assert change in told["diff"]
    assert "tests/" not in told["diff"]
    assert demo.err == ""
    assert not list(processes_of(place))
    assert not list((place / "tmp").iterdir())
    assert not list((place / "somewhere").iterdir())


def test_without_ruff_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(engine, "find_spec", lambda name: None if name == "ruff" else find(name))

    code = engine.run("gap_report", as_json=True, keep=False, console=Console(stderr=True), svg=None)

    assert code == 1
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert problem["code"] == "demo_needs"
    assert problem["detail"].startswith("The demo runs ruff, which is not installed: ")
