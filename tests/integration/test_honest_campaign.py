"""A campaign end to end: a real worker, the reference controller, real tests, and an agent that knows only its spec.

At every third step the agent makes a mistake, tests that ask for the wrong thing among them; the campaign recovers
within the limits that it has.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.plan import PlanView
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support.scripted import ENDED
from worker.agents.agent import command_agent
from worker.cli.commands.app import app
from worker.controller import ControllerConfig, run
from worker.demo import repository
from worker.demo.story import Commit
from worker.sandbox.paths import PathGrant
from worker.store import queries

pytestmark = pytest.mark.outages

AGENT = r"""
import json, pathlib, re, sys
spec = json.load(sys.stdin)
count = pathlib.Path(sys.argv[1]) / "count"
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
wrong = number % 3 == int(sys.argv[2])
given, kind = spec.get("input") or {}, spec["controller_task_spec"]["type"]

def sections(text):
    parts = re.split(r"^## +(.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))

def path_in(text):
    return re.search(r"(?:shop|docs)/\w+\.(?:py|md)", text)[0]

def explore():
    if wrong:
        return "I had a look around."
    found = [path_in(body) for body in sections(given["objective"]).values()]
    candidates = [{"path": path, "relevance": "medium"} for path in found]
    structure = {"status": "ok", "test_pattern": "tests/test_*.py", "language": "python"}
    delta = {"status": "ok", "candidates": candidates}
    return {"structure": structure, "pattern": {"status": "ok"}, "memory": {"status": "ok"}, "delta": delta}

def draft():
    prompt = given["prompt"]
    text = "\n".join(line[2:] for line in prompt.splitlines() if line.startswith("| "))
    complete = set(re.findall(r"(\d{3}) [\w-]+ \([^)]*\) is complete", text))
    tasks = []
    for heading, body in sections(text.partition("Files that may change")[0]).items():
        path, slug = path_in(body), heading.lower()
        first = f"{len(tasks) + 1:03}"
        if path.startswith("docs"):
            tasks.append({"seq": first, "slug": slug, "type": "BUILD", "delta": [path], "verify": "none",
                          "depends": "none"})
            continue
        test = f"tests/test_{pathlib.Path(path).stem}.py"
        tasks.append({"seq": first, "slug": f"spec-{slug}", "type": "SPEC", "delta": [test], "verify": "python-syntax",
                      "depends": "none"})
        tasks.append({"seq": f"{len(tasks) + 1:03}", "slug": f"build-{slug}", "type": "BUILD", "delta": [path],
                      "verify": f"pytest -q {test}", "depends": first})
    every = [task["seq"] for task in tasks]
    tasks.append({"seq": f"{len(tasks) + 1:03}", "slug": "verify-all", "type": "VERIFY", "delta": [],
                  "verify": "pytest -q", "depends": every})
    if wrong:
        tasks[0]["delta"].append("shop/settings.py")
    return {"tasks": [task for task in tasks if task["seq"] not in complete]}

def examples(path):
    body = next(body for body in sections(given["objective"]).values() if path in body)
    found = re.findall(r"`(\w+)\((\S+)\) == (\d+)`", body)
    return [(name, word, int(value)) for name, word, value in found]

def patch(path):
    stem = pathlib.Path(path).stem.removeprefix("test_")
    meant = f"# {given['meant']}\n" if given.get("meant") else ""
    if path.startswith("docs"):
        if not wrong:
            pathlib.Path(path).write_text("# Handbook\n\nShipping is charged.\n")
        return
    cases = examples(f"shop/{stem}.py")
    cases = [(name, word, value + wrong) for name, word, value in cases]
    name = cases[0][0]
    if path.startswith("tests"):
        asserts = [f"assert {name}({word}) == {value}" for _, word, value in cases]
        body = "".join(f"\n\ndef test_{at}():\n    {line}\n" for at, line in enumerate(asserts))
        text = f"{meant}from shop.{stem} import {name}\n{body}"
    else:
        table = ", ".join(f"{word}: {value}" for _, word, value in cases)
        text = f"{meant}def {name}(word):\n    return {{{table}}}[word]\n"
    pathlib.Path(path).write_text(text)

def contradiction(path):  # what tests that were red ask for, and the objective does not
    test = pathlib.Path(f"tests/test_{pathlib.Path(path).stem}.py")
    known = (spec["context"]["previous_failure"] or {}).get("failing_tests")
    if not known or wrong or not path.startswith("shop") or not (given.get("before") or "cart" in path):
        return None
    asked = set(re.findall(r"assert (.+)", test.read_text()))
    return next((f"{test} asks for {line}" for line in sorted(asked) if line not in given["objective"]), None)

output = "Done."
if kind == "DRAFT":
    output = draft()
elif kind == "EXPLORE":
    output = explore() if spec["step_id"] == "explore" else "Looked: " + json.dumps(given.get("before"))
elif found := next(filter(None, map(contradiction, spec["allowed_files"])), None):
    output = {"status": "blocked", "reason": "a test contradicts the objective", "tried": "what the objective says",
              "unknown": "who is right", "discovery": found}
else:
    for path in spec["allowed_files"]:
        patch(path)
print(json.dumps({"tokens_used": 500, "output": output}))
"""

OBJECTIVE = """# Shipping
Charge for shipping.

## Rates
In shop/rates.py zones are named by a word or by a number.
`rate("home") == 5` and `rate("abroad") == 9`.

## Cart
shop/cart.py tells the weight of a size: `weight("small") == 1` and `weight("large") == 4`.

## Handbook
docs/handbook.md says that shipping is charged, whether or not there is a discount.
"""
FILES = {
    "shop/__init__.py": "",
    "shop/rates.py": "",
    "shop/cart.py": "",
    "docs/handbook.md": "# Handbook\n",
    "tests/test_rates.py": "",
    "tests/test_cart.py": "",
    "tests/test_shop.py": "def test_shop():\n    import shop  # noqa: F401\n",
}
ALLOWED = [path for path in FILES if path not in ("shop/__init__.py", "tests/test_shop.py")]


@dataclass(frozen=True, slots=True)
class Here:
    """A worker, and a controller whose agent works on the repository at `root`."""

    worker: RunningWorker
    root: Path
    base: str
    queue: str

    def view(self, plan_id: str) -> PlanView:
        found = queries.plan(self.worker.redis, 1, plan_id)
        assert found is not None
        return found

    def until(self, plan_id: str, holds: Callable[[PlanView], bool]) -> PlanView:
        """Wait until that holds of the plan, or it has ended."""

        def over() -> PlanView | None:
            view = self.view(plan_id)
            return view if view.state in ENDED or holds(view) else None

        found = wait_until(over, timeout=240, what=f"the end of {plan_id}")
        assert found
        return found


def planner(*words: str) -> Any:
    answer = CliRunner().invoke(app, [*words, "--json"])
    assert answer.exit_code == 0, answer.output
    return codec.loads(answer.stdout)


@pytest.fixture
def here(first: int, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    root, queue, stop, codes = tmp_path / "shop", f"q-{uuid.uuid4().hex[:8]}", threading.Event(), list[int]()
    base = repository.make(root, [Commit("main", "Ada <ada@example.org>", "2026-11-02", "As it is", FILES)])
    for name in ("agent", "trees"):
        (tmp_path / name).mkdir()
    (tmp_path / "agent" / "agent.py").write_text(AGENT)
    agent = command_agent(f"{sys.executable} {tmp_path / 'agent' / 'agent.py'} {tmp_path / 'agent'} {first}")
    config = ControllerConfig(
        redis_url=server_url,
        workdir=root,
        queues=(queue,),
        heartbeat_s=1.0,
        agent=agent,
        worktrees=tmp_path / "trees",
        agent_paths=(PathGrant(tmp_path / "agent", writable=True),),
    )
    with running_worker(server_url, tmp_path / "worker.log") as worker:
        thread = threading.Thread(target=lambda: codes.append(run(config, stop)))
        thread.start()
        yield Here(worker, root, base, queue)
        stop.set()
        thread.join(30)
    assert codes == [0]


@pytest.mark.parametrize(
    ("drafter", "first"), [pytest.param("queue", 0, marks=pytest.mark.long), ("queue", 2), ("none", 0)]
)
def test_a_campaign_whose_agent_errs_at_every_third_step_recovers(here: Here, tmp_path: Path, drafter: str) -> None:
    goal = {
        "goal": "Charge for shipping",
        "kind": "campaign",
        "campaign": {"objective": OBJECTIVE},
        "drafter": drafter,
        "allowed_files": ALLOWED,
        "queue": here.queue,
        "context": {"base_sha": here.base, "files": [*FILES], "test_command": "pytest -q"},
        "limits": {"max_parallel": 1},  # so that it is the same steps at which the agent errs
    }
    (tmp_path / "goal.json").write_bytes(codec.dumps(goal))
    plan_id = planner("submit", str(tmp_path / "goal.json"), "--wait")["plan_id"]

    asking = here.until(plan_id, lambda view: view.waiting is not None)
    assert asking.waiting is not None, asking.halt
    assert asking.waiting.questions == ('The section "Rates" says "or": which of the two is meant?',)
    planner("answer", plan_id, "--answer", "A", "--reason", "as the team decided")
    view = here.until(plan_id, lambda _: False)

    assert view.state == "COMPLETED", view.halt
    checkout = tmp_path / "checkout"
    repository.check_out(here.root, f"planner/{plan_id}", checkout)
    assert view.budget.failing_outcomes.spent > 0
    assert {each["status"] for each in view.document["progress"].values()} == {"complete"}
    texts = {path: (checkout / path).read_text() for path in ALLOWED}
    assert "5" in texts["shop/rates.py"]
    assert 'return {"home": 5, "abroad": 9}[word]' in texts["shop/rates.py"]
    assert 'return {"small": 1, "large": 4}[word]' in texts["shop/cart.py"]
    assert 'assert rate("home") == 5' in texts["tests/test_rates.py"]
    assert "Shipping is charged" in texts["docs/handbook.md"]
    told = {path for path, text in texts.items() if "zones are named by a word" in text}
    if drafter == "queue":  # the templates make one task of all sections here
        assert told == {"shop/rates.py", "tests/test_rates.py"}
