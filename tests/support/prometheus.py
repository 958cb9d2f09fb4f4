"""A Prometheus for one test: it has the example's configuration and rules, and scrapes every half second."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from schemas import codec
from tests.conftest import wait_until
from worker.host.embedded_server import free_port

FOLDER = Path(__file__).parents[2] / "docs" / "observability"
DASHBOARD, RULES, CONFIG = FOLDER / "dashboard.json", FOLDER / "alerts.yml", FOLDER / "prometheus.yml"
SCRAPE_S = 0.5
RATE_WINDOW = "30s"  # what Grafana would put in the place of $__rate_interval

Series = dict[str, Any]


def rows() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the dashboard's rows with their panels, in order."""
    found = list[tuple[str, list[dict[str, Any]]]]()
    for each in codec.loads(DASHBOARD.read_bytes())["panels"]:
        if each["type"] == "row":
            found.append((each["title"], []))
        else:
            found[-1][1].append(each)
    return found


def panels() -> list[dict[str, Any]]:
    """Return the panels of all rows."""
    return [panel for _, found in rows() for panel in found]


def queries() -> list[tuple[str, str]]:
    """Return every query of the dashboard, with the title of its panel."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


def asked(expression: str) -> str:
    """Return a query of the dashboard as Grafana would send it."""
    return expression.replace("$__rate_interval", RATE_WINDOW)


def alerts() -> list[dict[str, Any]]:
    """Return every alert of the rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


class Prometheus:
    """A running server; asks as Grafana does."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """Call the API; an error fails the test with its message."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def now(self, expression: str) -> list[Series]:
        """Return every series that a query gives now."""
        found: list[Series] = self.ask("query", query=asked(expression))["result"]
        return found

    def over(self, expression: str, begin: float, end: float, step: float = 1) -> list[Series]:
        """Return every series that a query gives over a time."""
        span = {"start": str(begin), "end": str(end), "step": str(step)}
        found: list[Series] = self.ask("query_range", query=asked(expression), **span)["result"]
        return found

    def firing(self) -> set[str]:
        """Return the names of the firing alerts."""
        return {each["labels"]["alertname"] for each in self.ask("alerts")["alerts"] if each["state"] == "firing"}

    def fires(self, names: frozenset[str]) -> bool:
        """Return whether all of these alerts fire."""
        return names <= self.firing()

    def down(self) -> list[str]:
        """Return the errors of the targets that Prometheus cannot scrape."""
        found = self.ask("targets", state="active")["activeTargets"]
        return [f"{each['scrapeUrl']}: {each['lastError']}" for each in found if each["health"] != "up"]


@contextmanager
def scraping(directory: Path, targets: Mapping[str, str], key: str, hold: str = "1s") -> Iterator[Prometheus]:
    """Run Debian's Prometheus with the example's configuration, and with these targets, this key and short intervals.

    The rules are those of the documentation, but each condition must last for `hold` instead of minutes.
    """
    directory.mkdir()
    config = yaml.safe_load(CONFIG.read_text())
    config["global"] = {"scrape_interval": f"{int(SCRAPE_S * 1000)}ms", "evaluation_interval": "500ms"}
    assert {job["job_name"] for job in config["scrape_configs"]} == set(targets)
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    (directory / "planner_key").write_text(key + "\n")
    rules = yaml.safe_load(RULES.read_text())
    for rule in [rule for group in rules["groups"] for rule in group["rules"]]:
        rule["for"] = hold
    (directory / "alerts.yml").write_text(yaml.safe_dump(rules))
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    url = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={url}"], stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _ready(url), timeout=60, what="Prometheus is ready")
        assert process.poll() is None, (directory / "prometheus.log").read_text()
        yield Prometheus(f"http://{url}")
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"http://{url}/-/ready", timeout=30).status_code == 200
    except httpx.TransportError:
        return False
