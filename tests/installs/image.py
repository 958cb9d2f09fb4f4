"""The image of `compose.yaml` without a container engine: its lines run in an environment, its programs start there."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import yaml

from tests.installs.environments import COMMIT, Environment, check, shell, wait_for
from tests.installs.groups import ROOT
from worker.host.embedded_server import free_port, valkey

NOT_HERE = (
    "FROM ",
    "ARG SOURCE_COMMIT",
    "USER ",
    "WORKDIR ",
    "ENTRYPOINT ",
    "RUN useradd ",
    "RUN apt-get ",
)  # a container's own


def lay_out(environment: Environment) -> str:
    """Copy what the image copies, and install what it installs."""
    dockerfile = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["outcomes"]["build"]
    folder = environment.folder / "image"
    folder.mkdir()
    environment.add_pip()
    run = []
    for line in filter(None, map(str.strip, dockerfile["dockerfile_inline"].splitlines())):
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            for source in sources:
                _copy(ROOT / source, folder / target)
        elif line.startswith("RUN pip "):
            shell(line.removeprefix("RUN "), folder, environment, SOURCE_COMMIT=COMMIT)
            run.append(line)
        else:
            check(line.startswith(NOT_HERE), f"tests/installs/image.py cannot run this line of compose.yaml: {line}")
    check(f"(commit {COMMIT})" in environment.planner("--version"), "planner --version prints SOURCE_COMMIT")
    return "no container engine builds it here; run in a virtual environment: " + "; ".join(run)


def serve(environment: Environment) -> str:
    """Start a worker, a gateway and an exporter; each answers, and ends well."""
    http, metrics = free_port(), free_port()
    with valkey(environment.folder / "valkey") as url:
        asked = {"PLANNER_REDIS_URL": url, "PLANNER_STATE_DIR": str(environment.folder / "state")}
        with (
            environment.running("worker", **asked),
            environment.running("gateway", "--port", str(http), **asked),
            environment.running("exporter", "--port", str(metrics), **asked),
        ):
            wait_for(lambda: environment.run("planner", "health", "--ready", **asked)[0] == 0, "the worker is ready")
            wait_for(lambda: _text(f"http://127.0.0.1:{http}/readyz"), "the gateway is ready")
            wait_for(lambda: "planner_" in _text(f"http://127.0.0.1:{metrics}/metrics"), "the exporter has metrics")
    return "worker, gateway and exporter started, answered and ended with 0"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _text(url: str) -> str:
    try:
        answer = httpx.get(url)
    except httpx.TransportError:
        return ""
    return answer.text if answer.is_success else ""
