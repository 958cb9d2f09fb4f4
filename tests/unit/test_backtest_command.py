"""`planner backtest` on exports: a line a plan that comes out otherwise, the sum, and what could not be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schemas import codec
from tests.support.plans import PLAN, Running, a_failure, a_report, a_step
from tests.support.replay import export_of
from worker.cli.commands.app import app

STRICT = "[most]\nconsecutive_failures = 1\n"


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """A folder of two exports, of which one failed once, and one file that is none."""
    found = tmp_path / "exports"
    found.mkdir()
    for name, failures in (("a", 1), ("b", 0)):
        plan = Running(a_step("s-0"), a_step("s-1", "s-0"))
        for _ in range(failures):
            plan.report(a_failure("s-0", metrics={"tokens_used": 500}))
        for step in ("s-0", "s-1"):
            plan.report(a_report(step, metrics={"tokens_used": 700}))
        (found / f"{name}.json").write_bytes(export_of(plan.store.held(PLAN)))
    (found / "c.json").write_text("{}")
    return found


def run(tmp_path: Path, *words: object, policy: str = STRICT) -> Result:
    file = tmp_path / "policy.toml"
    file.write_text(policy)
    return CliRunner().invoke(app, ["backtest", "--policy", str(file), *map(str, words)])


def test_a_folder_is_told_a_line_a_plan_and_in_sum(exports: Path, tmp_path: Path) -> None:
    found = run(tmp_path, exports)

    assert found.exit_code == 1  # of what could not be read
    assert "COMPLETED            consecutive_failures   1,400" in found.stdout
    assert "c.json: not backtested: it is no" in found.stdout.replace("\n", " ")
    assert "2 plans, 1 not backtested" in found.stdout
    assert "1  ended earlier" in found.stdout
    assert "successes lost   1" in found.stdout


def test_json_is_an_object_a_line(exports: Path, tmp_path: Path) -> None:
    lines = [codec.loads(line) for line in run(tmp_path, exports, "--json").stdout.splitlines()]

    assert [line.get("verdict") for line in lines] == ["ended_earlier", "same", None, None]
    assert lines[0]["saved"]["tokens"] == 1400
    assert lines[0]["would"]["rule"] == "consecutive_failures"
    assert lines[2]["why"]
    assert lines[3]["sum"]["verdicts"]["ended_earlier"] == 1


def test_a_plan_that_can_be_read_is_no_failure(exports: Path, tmp_path: Path) -> None:
    assert run(tmp_path, exports / "a.json").exit_code == 0


@pytest.mark.parametrize(
    ("policy", "words", "told"),
    [
        ("[most]\ntokenz = 5\n", ["EXPORTS"], "`tokens`"),
        (STRICT, [], "Name plans or exports"),
        (STRICT, ["EXPORTS", "--since", "7d"], "Name plans or exports"),
        (STRICT, ["EMPTY"], "no files *.json"),
    ],
)
def test_what_cannot_be_meant_is_told(exports: Path, tmp_path: Path, policy: str, words: list[str], told: str) -> None:
    (tmp_path / "empty").mkdir()
    places = {"EXPORTS": exports, "EMPTY": tmp_path / "empty"}

    found = run(tmp_path, *(places.get(word, word) for word in words), policy=policy)

    assert found.exit_code == 2
    assert told in " ".join(found.stderr.split())


@pytest.mark.parametrize("policy", ["[most]\ntokenz = 5\n[risk.LOW]\nretries = 99\n", "a = [", "format = 9\n"])
def test_a_wrong_policy_is_told_as_where_it_is_applied(exports: Path, tmp_path: Path, policy: str) -> None:
    here = run(tmp_path, exports, "--json", policy=policy)
    there = CliRunner().invoke(app, ["policy", "apply", str(tmp_path / "policy.toml"), "--check", "--json"])

    assert (here.exit_code, here.stdout) == (there.exit_code, there.stdout)
    assert codec.loads(here.stdout)["errors"]
