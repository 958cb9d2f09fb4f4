"""What a process knows of its commits is kept when it ends, and no thread is left that would still save it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from worker.store.commits import CommitJournal

# Each child notes commits and ends as a script does, some in the middle of saving.
PROCESSES = """
import os, sys, time
from pathlib import Path
from worker.store import commits
from worker.store.keys import Partition

folder, save_s, count = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
commits.SAVE_S = save_s
failed = []
for number in range(count):
    child = os.fork()
    if child == 0:
        known = [commits.Commits(None, Partition(each), folder) for each in range(10)]
        for one in known:
            one._data_id = f"child{number}"
            for plan in range(100):
                one.note(f"plan_{plan}", plan + 1)
        if save_s < 1:
            time.sleep(save_s + number * 0.0002)
        break
    _, status = os.waitpid(child, 0)
    failed += [status] if status else []
else:
    print("ended badly:", failed)
"""


def end_processes(folder: Path, save_s: float, count: int) -> str:
    argv = [sys.executable, "-c", PROCESSES, str(folder), str(save_s), str(count)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout + done.stderr


def test_a_process_that_ends_while_commits_are_saved_ends_well(tmp_path: Path) -> None:
    assert end_processes(tmp_path, 0.01, 16) == "ended badly: []\n"


def test_a_process_that_ends_at_once_after_its_commits_has_saved_them(tmp_path: Path) -> None:
    assert end_processes(tmp_path, 60, 1) == "ended badly: []\n"

    kept = [each.kept for number in range(10) for each in CommitJournal(tmp_path, number).others("child0")]
    assert [(each.known, len(each.recent)) for each in kept] == [(100, 100)] * 10
