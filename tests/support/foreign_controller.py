"""A controller from another project, as a process: it takes each step and reports what a script tells it.

`python foreign_controller.py REDIS_URL REMOTE SCRIPT` reads `planner:{0}:steps:default`. SCRIPT is JSON. Its keys are
names of steps, or a name and the number of an attempt; its values are `{"write": {path: text}, "report": {...}}`. The
controller reports success for all other steps. Its changes go to the remote's `refs/planner/<plan>`, as those of
controllers on many hosts do. The fields of `report` go into the outcome, true or not.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import redis

URL, REMOTE, SCRIPT = sys.argv[1:]
STREAM = "planner:{0}:steps:default"
DIFF = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "-p", "--binary", "--full-index")
WHO = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "f")


def git(folder: str, *words: str) -> bytes:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **WHO}
    ).stdout


def land(spec: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """Commit the files to the plan's ref of the remote; return the fields of the outcome that describe the commit."""
    ref = f"refs/planner/{spec['plan_id']}"
    with tempfile.TemporaryDirectory() as folder:
        git(folder, "clone", "--quiet", REMOTE, "clone")
        clone = f"{folder}/clone"
        if git(clone, "ls-remote", "origin", ref):
            git(clone, "fetch", "--quiet", "origin", ref)
            git(clone, "checkout", "--quiet", "FETCH_HEAD")
        created = [path for path in files if not (Path(clone) / path).exists()]
        for path, text in files.items():
            (Path(clone) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(clone) / path).write_text(text)
        git(clone, "add", "--all")
        trailers = f"Plan: {spec['plan_id']}\nStep: {spec['step_id']}\nAttempt: {spec['attempt']}"
        git(clone, "commit", "--quiet", "--message", f"Do it\n\n{trailers}")
        git(clone, "push", "--quiet", "origin", f"HEAD:{ref}")
        digest = hashlib.sha256(git(clone, *DIFF, "HEAD^", "HEAD")).hexdigest()
        commit = git(clone, "rev-parse", "HEAD").decode().strip()
        return {"touched_files": sorted(files), "created_files": created, "diff_hash": digest, "commit": commit}


def work(spec: dict[str, Any]) -> dict[str, Any]:
    """Do a step, and report its outcome."""
    script = json.loads(Path(SCRIPT).read_text())
    todo = script.get(f"{spec['step_id']} {spec['attempt']}") or script.get(spec["step_id"]) or {}
    said = {"success": True, "tests_passed": True, "metrics": {"tokens_used": 10, "patch_cycles": 1}}
    if files := todo.get("write"):
        said |= land(spec, files)
    elif spec["mode"] == "patch":
        said |= {"touched_files": [], "created_files": [], "nothing_to_change": "all is right"}
    said["verify"] = [{"tool": tool["tool"], "exit_code": 0} for tool in spec["verify_tools"]]
    names = ("plan_id", "step_id", "attempt", "lease")
    return {**said, **todo.get("report", {}), **{name: spec[name] for name in names}}


def main() -> None:
    """Take steps until it is killed."""
    client = redis.Redis.from_url(URL)
    while True:
        found: Any = client.xreadgroup("controllers", "foreign", {STREAM: ">"}, count=1, block=200) or []
        for _, entries in found:
            for entry, fields in entries:
                if b"data" in fields:
                    spec = json.loads(fields[b"data"])
                    client.fcall("planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], "foreign")
                    client.xadd(spec["reply_to"], {"data": json.dumps(work(spec))})
                client.xack(STREAM, "controllers", entry)


if __name__ == "__main__":
    main()
