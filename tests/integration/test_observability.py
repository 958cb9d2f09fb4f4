"""The dashboard and the alerts on a real run: Debian's Prometheus scrapes every kind of process and is asked it all."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.support.observed import FAULTS, observed
from tests.support.programs import needs
from tests.support.prometheus import SCRAPE_S, Prometheus, Series, alerts, queries, scraping

PATIENCE_S = 30.0
LAG_S = 60.0  # until clocks that nobody looks at are late enough
# What no fault here makes: it takes hours, or a server of a gigabyte.
NOT_MADE = {"PlannerInboxOld", "PlannerQueueOld", "PlannerMemory"}


def has_number(found: list[Series]) -> bool:
    """Whether an answer has a number somewhere; a quantile of nothing is NaN."""
    return any(not math.isnan(float(value)) for series in found for _, value in series["values"])


def without_answer(prometheus: Prometheus, began: float) -> list[tuple[str, str]]:
    """The queries, with their panels, that nothing has answered since it began."""
    now = time.time()
    return [(title, query) for title, query in queries() if not has_number(prometheus.over(query, began, now))]


@pytest.mark.long
@pytest.mark.outages
@needs("prometheus")
def test_every_query_is_answered_and_every_fault_fires_its_alert(tmp_path: Path) -> None:
    began = time.time()
    with observed(tmp_path) as run, scraping(tmp_path / "prometheus", run.targets(), run.key()) as prometheus:
        wait_until(lambda: not prometheus.down(), PATIENCE_S, "all are scraped")
        for _ in range(3):
            run.live()

        end = time.time() + PATIENCE_S
        while (unanswered := without_answer(prometheus, began)) and time.time() < end:
            time.sleep(SCRAPE_S)
        assert unanswered == []
        already: set[str] = set()
        for fault, expected in FAULTS:
            assert not expected & already, "something fires without its fault"
            fault(run)
            wait_until(partial(prometheus.fires, expected), LAG_S, f"{sorted(expected)} fire")
            already |= prometheus.firing()

    made = {name for _, names in FAULTS for name in names}
    assert made == already
    assert made | NOT_MADE == {rule["alert"] for rule in alerts()}
