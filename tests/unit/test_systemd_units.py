"""The units of docs/examples/systemd hold for systemd, and give each program the time that it needs to end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import needs
from worker.settings.settings import ServiceSettings
from worker.start import LASTING

UNITS = sorted((Path(__file__).parents[2] / "docs/examples/systemd").glob("*.service"))
PROGRAM = "/opt/planner/bin/planner"


def values(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def test_there_is_one_for_worker_gateway_and_controller() -> None:
    assert {values(unit, "ExecStart")[0].split()[1] for unit in UNITS} == {"worker", "gateway", "controller"} <= LASTING


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_waits_longer_than_the_program_takes_to_end(unit: Path) -> None:
    assert values(unit, "KillSignal") == ["SIGTERM"]
    assert int(values(unit, "TimeoutStopSec")[0]) > ServiceSettings.model_fields["stop_s"].default


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    installed = tmp_path / unit.name
    installed.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("planner"))))
    program = shutil.which("systemd-analyze")
    assert program
    done = subprocess.run([program, "verify", "--man=no", installed], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
