"""Counting: nothing without a board, labels that stay few, files of processes that were killed."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from worker.telemetry import metrics
from worker.telemetry.metrics import MOST_NAMES, NAME, OTHER, PREFIX, Board, Counting, Metric, Tally
from worker.telemetry.metrics_server import CannotServe, Counts, MetricsServer, averages, exposition

KEPT: list[Board] = []  # a process has one, for as long as it lives; none of these is to close its files meanwhile


def a_board(folder: Path) -> Board:
    KEPT.append(Board(folder))
    return KEPT[-1]


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    here = Counting()
    here.board = a_board(tmp_path)
    return here


def counts(here: Counting) -> Counts:
    assert here.board
    return Counts(here.board)


def read(here: Counting) -> dict[str, float]:
    """What is told, by name and labels, as Prometheus reads it."""
    families = text_string_to_metric_families(exposition(counts(here).collect).decode())
    samples = [sample for family in families for sample in family.samples]
    return {f"{each.name}{sorted(each.labels.values())}": each.value for each in samples}


def killed(here: Counting, metric: Metric, *labels: str, more: int = 0) -> None:
    """Count in a process that is killed at once: once, and once with each of `more` other first labels."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    here.count(metric, *labels)
    for number in range(more):
        here.count(metric, f"{labels[0]}-{number}", *labels[1:])
    here.observe(metrics.DECOMPOSE_SECONDS, 0.02, "task")
    os.kill(os.getpid(), signal.SIGKILL)


def test_without_a_board_nothing_happens() -> None:
    here = Counting()

    here.count(metrics.HALTS, "security")
    here.observe(metrics.APPLY_SECONDS, 1)

    assert here.board is None


def test_what_killed_processes_counted_is_told_once_and_kept_in_one_file(counting: Counting, tmp_path: Path) -> None:
    counting.count(metrics.HALTS, "security")
    for _ in range(3):
        killed(counting, metrics.HALTS, "security")
        killed(counting, metrics.HALTS, "budget")
    before, teller = read(counting), counts(counting)

    teller.merge_gone()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"counter_{os.getpid()}.db",
        "counter_gone.db",
        "histogram_gone.db",
    ]
    assert read(counting) == before
    assert before["planner_plan_halts_total['security']"] == 4
    assert before["planner_plan_halts_total['budget']"] == 3
    assert before["planner_decompose_duration_seconds_count['task']"] == 6
    assert before["planner_decompose_duration_seconds_bucket['0.025', 'task']"] == 6
    assert before["planner_decompose_duration_seconds_bucket['0.01', 'task']"] == 0
    killed(counting, metrics.HALTS, "security")
    teller.merge_gone()
    assert read(counting)["planner_plan_halts_total['security']"] == 5


def test_children_that_come_and_go_leave_no_more_labels_than_one_has(counting: Counting) -> None:
    for child in range(3):
        killed(counting, metrics.STEPS_DISPATCHED, *(f"q{child}", "low"), more=MOST_NAMES - 10)

    counts(counting).merge_gone()

    told = {name: value for name, value in read(counting).items() if name.startswith("planner_steps_dispatched_total")}
    assert len(told) == MOST_NAMES + 1
    assert told["planner_steps_dispatched_total['low', 'other']"] > 1
    assert sum(told.values()) == 3 * (MOST_NAMES - 10 + 1)


def test_a_folder_of_a_worker_that_had_our_process_id_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(socket, "gethostname", lambda: "box")
    mine, others = (tmp_path / f"{PREFIX}box-{pid}-abcd" for pid in (os.getpid(), os.getppid()))
    for folder in (mine, others):
        folder.mkdir()

    found = Counting().start().folder

    assert not mine.exists()
    assert others.exists()
    assert found.is_dir()


def test_a_scrape_that_fails_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    def tell() -> Iterator[Any]:
        raise ValueError("no number")
        yield

    server = MetricsServer("127.0.0.1", 0, tell)
    server.start()
    try:
        answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics", timeout=10)
    finally:
        server.stop()

    assert answer.status_code == 500
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["metrics failed"]


@settings(max_examples=20)
@given(names=st.lists(st.text(max_size=80) | st.from_regex(NAME, fullmatch=True), max_size=120))
def test_labels_are_few_and_plain_whatever_comes(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    board, tally = a_board(tmp_path_factory.mktemp("board")), Tally()
    for name in names:
        tally.counts[metrics.WEBHOOKS, (name, "accepted")] += 1
    board.take(tally)

    found = [sample for family in Counts(board).collect() for sample in family.samples]

    values = {sample.labels["source"] for sample in found}
    assert len(values - {OTHER}) <= MOST_NAMES
    assert all(NAME.fullmatch(value) for value in values)
    assert sum(sample.value for sample in found) == len(names)


def test_a_worker_answers_how_it_is_and_others_do_not() -> None:
    wrong: dict[bool, list[str]] = {False: [], True: ["the store does not answer", "it consumes nothing"]}
    worker, exporter = MetricsServer("127.0.0.1", 0, health=wrong.__getitem__), MetricsServer("127.0.0.1", 0)
    for server in (worker, exporter):
        server.start()
    try:
        live, ready, other = (
            httpx.get(f"http://127.0.0.1:{server.port}{path}", timeout=10)
            for server, path in ((worker, "/healthz"), (worker, "/readyz"), (exporter, "/healthz"))
        )
    finally:
        worker.stop()
        exporter.stop()

    assert (live.status_code, live.text) == (200, "Well.\n")
    assert (ready.status_code, ready.text) == (503, "Not well: the store does not answer; it consumes nothing.\n")
    assert other.status_code == 404


def test_a_port_that_is_taken_is_a_sentence() -> None:
    server = MetricsServer("127.0.0.1", 0)
    try:
        with pytest.raises(CannotServe, match=f"Cannot serve metrics at 127.0.0.1, port {server.port}: .*in use"):
            MetricsServer("127.0.0.1", server.port)
    finally:
        server.server_close()


def test_averages_are_of_what_was_counted_and_null_of_nothing(counting: Counting) -> None:
    assert averages(counts(counting).collect())["step_success_rate"] is None
    for status in ("success", "success", "success", "failed"):
        counting.count(metrics.STEPS, status)
    counting.count(metrics.PLANS, "pattern")
    counting.count(metrics.REVISIONS, "TEST_REGRESSION:1")
    counting.count(metrics.REVISIONS, "TEST_REGRESSION:2")
    counting.observe(metrics.STEP_RUN_SECONDS, 2.0, "default")
    counting.observe(metrics.STEP_RUN_SECONDS, 3.0, "gpu")

    found = averages(counts(counting).collect())

    assert found["step_success_rate"] == 0.75
    assert found["cache_hit_rate"] == 0.0
    assert found["revisions"] == 2
    assert found["revisions_by_category"] == {"TEST_REGRESSION": 2}
    assert found["avg_step_time_ms"] == 2500.0
    assert found["avg_plan_time_ms"] is None
