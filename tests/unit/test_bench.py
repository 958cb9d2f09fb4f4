"""What the benchmark makes of its runs, and how it reads CPU."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.bench import cpu
from tests.bench.effects import NEW, OLD, PLAN_ID, Commit
from tests.bench.report import Report, Spread

BURN = "import time, sys\nwhile time.process_time() < 0.3: pass\nprint(flush=True); sys.stdin.read()"


class Idle:
    """A server that does nothing."""

    def info(self, _: str) -> dict[str, float]:
        return {"used_cpu_user": 0.0, "used_cpu_sys": 0.0}


def test_several_runs_are_told_as_median_least_and_most() -> None:
    report = Report({"name": "valkey"}, [{"a": 3.0}, {"a": 1.0}, {"a": 2.0}])

    assert report.figures == {"a": Spread(2.0, 1.0, 3.0)}
    assert report.as_json()["figures"] == {"a": {"median": 2.0, "min": 1.0, "max": 3.0}}
    assert "name valkey" in report.as_table()


def test_the_cpu_of_a_process_has_that_of_its_children() -> None:
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"
    server: Any = Idle()
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()

        used = cpu.usage(server, process.pid)

        process.communicate()
    assert 0.3 <= used.worker < 3


def test_what_commits_have_in_common_stands_in_the_function_and_the_rest_is_given() -> None:
    queue = b"planner:{0}:steps:default"
    commit = Commit(
        [
            [b"XADD", queue, b"*", b"data", b'{"plan_id": "<plan>"}'],
            [b"XDEL", queue, OLD],
            [b"HSET", PLAN_ID, b"s-1", NEW + b" [1]"],
            [b"HSET", PLAN_ID, b"lock", b""],
        ]
    )

    assert commit.arguments == [b'{"plan_id": "<plan>"}', OLD, PLAN_ID, b" [1]"]
    assert [line.strip() for line in commit.function.splitlines() if "redis.call" in line] == [
        "local entry = redis.call('XADD', 'planner:{0}:steps:default', '*', 'data', a[i + 1])",
        "redis.call('HSET', a[i + 3], 's-1', entry .. a[i + 4])",
        "redis.call('HSET', a[i + 3], 'lock', '')",
        "redis.call('XDEL', 'planner:{0}:steps:default', unpack(told[2]))",  # once, of all
    ]
