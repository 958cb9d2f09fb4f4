"""The dashboard and the alerts: what they ask is exported, what they say has a place in the docs, and alerts fire."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.halts import EVERY_HALT
from tests.support.programs import needs
from tests.support.prometheus import CONFIG, DASHBOARD, RULES, alerts, panels, queries
from worker.process.lifecycle import zeros
from worker.telemetry.metrics import HALTS, TABLE, Kind

ROOT = Path(__file__).parents[2]
ALERT_TESTS = ROOT / "tests/fixtures/observability/alerts_test.yml"
PARTS = {"_bucket": "le", "_sum": "", "_count": ""}
OF_PROMETHEUS = {"up": {"job", "instance"}}
EXPRESSIONS = [*queries(), *((rule["alert"], rule["expr"]) for rule in alerts())]


def exported() -> dict[str, set[str]]:
    """Every name that Prometheus may be asked for, with its labels."""
    found = dict(OF_PROMETHEUS)
    for metric in TABLE:
        labels = {*metric.labels, "job", "instance"}
        if metric.kind is Kind.HISTOGRAM:
            found |= {metric.name + part: labels | ({label} if label else set()) for part, label in PARTS.items()}
        else:
            found[metric.name] = labels
    return found


def names(expression: str) -> list[str]:
    return re.findall(r"\b(?:planner_\w+|up)\b", expression)


def labels(expression: str) -> set[str]:
    """The labels that an expression selects or groups by."""
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    selected = re.findall(r"\{([^}]*)\}", expression)
    matched = [label for each in selected for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", each)]
    return {label.strip() for each in grouped for label in each.split(",")}.union(matched)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[f"{t}-{n}" for n, (t, _) in enumerate(EXPRESSIONS)])
def test_what_is_asked_is_exported_with_these_labels(title: str, expression: str) -> None:
    known, asked = exported(), names(expression)

    assert asked, title
    assert [name for name in asked if name not in known] == []
    assert [label for label in labels(expression) if not any(label in known[name] for name in asked)] == []


def test_no_gauge_of_shared_state_is_added_up_over_those_who_tell_it() -> None:
    gauges = [metric.name for metric in TABLE if metric.kind is Kind.GAUGE and metric.name != "planner_build_info"]
    for title, expression in EXPRESSIONS:
        for name in set(names(expression)).intersection(gauges):
            told = re.findall(rf"(\w+(?: by \([^)]*\))?) ?\({name}\b", expression)
            assert all(each.split()[0] in ("max", "absent") for each in told), title
            assert len(told) == names(expression).count(name), title


def test_what_alerts_ask_the_increase_of_is_told_before_it_is_counted() -> None:
    told = {metric.name for metric, _ in zeros().counts}
    asked = {name for rule in alerts() for name in re.findall(r"increase\((\w+)", rule["expr"])}

    assert asked == {"planner_plan_halts_total", "planner_callbacks_total"} <= told
    assert {labels[0] for metric, labels in zeros().counts if metric is HALTS} >= EVERY_HALT.keys()


def test_legends_name_labels_that_the_query_leaves() -> None:
    for panel in panels():
        for target in panel["targets"]:
            asked = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert asked <= labels(target["expr"]), panel["title"]


def test_panels_lie_beside_each_other_and_each_says_what_it_shows() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in panels()}) == len({panel["title"] for panel in panels()}) == len(panels())


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_alert_says_how_grave_it_is_what_it_saw_and_where_to_read_what_to_do() -> None:
    for rule in alerts():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor in anchors(ROOT / page), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+m", rule["for"])


def test_each_alert_is_tested_quiet_and_firing() -> None:
    cases: list[dict[str, Any]] = [
        case for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]
    ]
    names_of_alerts = {rule["alert"] for rule in alerts()}

    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names_of_alerts
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names_of_alerts


@needs("promtool")
@pytest.mark.parametrize(
    ("words", "file"),
    [("check config --syntax-only", CONFIG), ("check rules", RULES), ("test rules", ALERT_TESTS)],  # the key is no file
)
def test_promtool_finds_nothing_wrong(words: str, file: Path) -> None:
    ran = subprocess.run(["promtool", *words.split(), str(file)], capture_output=True, text=True, timeout=60)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_page_links_what_is_there() -> None:
    page = (ROOT / "docs/observability.md").read_text()

    assert all(f"observability/{file.name}" in page for file in (DASHBOARD, RULES, CONFIG))
