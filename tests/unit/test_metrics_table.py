"""The table of metrics: names as Prometheus wants them, and the page that lists them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.support.programs import needs
from worker.settings.settings import Settings, variables
from worker.telemetry.metrics import TABLE, Kind, Metric, Teller

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/metrics.md"
EXAMPLE = yaml.safe_load((ROOT / "docs/observability/compose.yaml").read_text())


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.teller} | {metric.help} |"


def test_names_and_labels_are_as_prometheus_wants_them() -> None:
    assert len({metric.name for metric in TABLE}) == len(TABLE)
    for metric in TABLE:
        assert re.fullmatch(r"planner(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert metric.name.endswith("_seconds") or metric.kind is not Kind.HISTOGRAM
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        assert not {"plan_id", "goal_id", "step_id", "tenant", "repo"}.intersection(metric.labels)
        assert metric.help.endswith(".")


def test_workers_tell_nothing_that_they_share() -> None:
    gauges = {metric.teller for metric in TABLE if metric.kind is Kind.GAUGE}

    assert gauges == {Teller.STATE, Teller.ALL}  # of ALL there is only what this process itself is
    assert [metric.name for metric in TABLE if metric.teller is Teller.ALL] == ["planner_build_info"]


def test_the_documented_table_is_the_one_of_the_code() -> None:
    documented = re.findall(r"^\| `planner_.*\|$", DOCS.read_text(), re.MULTILINE)

    assert documented == [row(metric) for metric in TABLE]


def test_the_example_for_compose_fits_the_services() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    added = {name for name, service in EXAMPLE["services"].items() if "image" in service}

    assert EXAMPLE["services"].keys() - added <= services.keys()
    assert added.isdisjoint(services)
    for service in EXAMPLE["services"].values():
        told = {name for name in service.get("environment", {}) if name.startswith("PLANNER_METRICS_")}
        assert told <= {variables(name)[0] for name in Settings.model_fields}


@needs("promtool")
def test_the_example_for_compose_has_a_configuration_of_prometheus(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(EXAMPLE["configs"]["prometheus.yml"]["content"])
    shutil.copy(ROOT / "docs/observability/alerts.yml", tmp_path)
    command = ["promtool", "check", "config", "prometheus.yml"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


if __name__ == "__main__":  # python -m tests.unit.test_metrics_table prints the table for docs/metrics.md
    for metric in TABLE:
        print(row(metric))  # noqa: T201
