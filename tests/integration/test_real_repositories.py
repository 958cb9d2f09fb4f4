"""Honest agents on repositories with real faults, real linters and real tests: what they can repair is completed.

Worker and controllers are the real ones. The agents are small programs that know nothing but their specs, and what a
careful or a careless person would do about them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
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

AGENT = """
import json, pathlib, re, subprocess, sys
spec = json.load(sys.stdin)
context = spec["context"]
failure = context.get("previous_failure")

def repair(text):  # it looks at nothing but the failure that it was told of
    known = " ".join((*context.get("failing_tests", ()), *(failure or {}).get("failing_tests", ())))
    return text.replace("price + price * percent", "price - price * percent") if "discount" in known else text

def rename(text):  # whoever is careless forgets what stands in quotes, until a test says so
    return re.sub(r"\\btotal\\b" if failure else r"(?<!\\")\\btotal\\b", "grand_total", text)

if spec["mode"] == "patch" and sys.argv[1] == "lint":
    subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "-q", *spec["allowed_files"]], check=True)
elif spec["mode"] == "patch":
    for path in map(pathlib.Path, spec["allowed_files"]):
        path.write_text(globals()[sys.argv[1]](path.read_text()))
print(json.dumps({"tokens_used": 500, "output": "Read."}))
"""


ORDINARY = """
import json, pathlib, re, subprocess, sys
spec = json.load(sys.stdin)
turns = pathlib.Path(sys.argv[1])
turn = len(list(turns.iterdir())) + 1
(turns / f"{turn:03}").touch()
wrong = turn % 3 == 0
BUG, RIGHT = "amount + amount * percent", "amount - amount * percent"
says = {"tokens_used": 500}
if spec["mode"] == "patch":
    files = [path for path in map(pathlib.Path, spec["allowed_files"]) if path.exists()]
    if wrong:
        files[0].write_text(files[0].read_text() + "\\ndef broken(:\\n")
    elif "ruff" in spec["title"]:
        subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "-q", *map(str, files)], check=True)
    else:
        for path in files:
            path.write_text(path.read_text().replace(BUG, RIGHT))
        says["nothing_to_change"] = "what these files say is right"
elif wrong:
    says["output"] = "I do not know."
else:
    found = [path for path in spec["input"]["files"] if BUG in pathlib.Path(path).read_text()]
    says["output"] = {"files": found, "notes": "the sign is wrong"}
print(json.dumps(says))
"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A worker, and two controllers of one queue whose agents work on the repository at `root`."""

    redis: Redis
    root: Path
    base: str
    queue: str

    def submit(self, *words: str) -> str:
        """Submit a goal from within the repository, as a person does; returns the plan's id."""
        answer = CliRunner().invoke(app, ["submit", *words, "--queue", self.queue, "--wait", "--json"])
        assert answer.exit_code == 0, answer.output
        told = codec.loads(answer.stdout)
        assert told["verdict"] == "PLANNED", told
        return str(told["plan_id"])

    def end(self, plan_id: str) -> PlanView:
        """Wait for the end of the plan."""

        def over() -> PlanView | None:
            view = queries.plan(self.redis, 1, plan_id)
            return view if view and view.state in ENDED else None

        found = wait_until(over, timeout=240, what=f"the end of {plan_id}")
        assert found
        return found

    def failing(self, plan_id: str) -> set[str]:
        """Name the tests that fail on the plan's branch."""
        checkout = self.root.parent / plan_id
        repository.check_out(self.root, f"planner/{plan_id}", checkout)
        done = tool(checkout, "pytest", "-q", "-p", "no:cacheprovider")
        return {line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")}


def tool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def a_worker(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    with running_worker(server_url, log) as worker:
        yield worker


@pytest.fixture
def fleet(
    a_worker: RunningWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Mapping[str, str]], Fleet]]:
    monkeypatch.setenv("PLANNER_REDIS_URL", a_worker.url)
    stop, codes, threads = threading.Event(), list[int](), list[threading.Thread]()

    def begin(agent: str, files: Mapping[str, str]) -> Fleet:
        root, queue = tmp_path / "shop", f"q-{uuid.uuid4().hex[:8]}"
        base = repository.make(root, [Commit("main", "Ada <ada@example.org>", "2026-11-02", "As it is", files)])
        monkeypatch.chdir(root)
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "ordinary.py").write_text(ORDINARY)
        (tmp_path / "trees").mkdir()
        (tmp_path / "turns").mkdir()
        words = f"ordinary.py {tmp_path / 'turns'}" if agent == "ordinary" else f"agent.py {agent}"
        config: dict[str, Any] = {"redis_url": a_worker.url, "workdir": root, "queues": (queue,), "heartbeat_s": 1.0}
        config |= {
            "agent": command_agent(f"{sys.executable} {tmp_path}/{words}"),
            "worktrees": tmp_path / "trees",
        }
        programs = (PathGrant(tmp_path / name, writable=False) for name in ("agent.py", "ordinary.py"))
        config |= {"agent_paths": (*programs, PathGrant(tmp_path / "turns", writable=True))}
        for _ in range(2):
            thread = threading.Thread(target=lambda: codes.append(run(ControllerConfig(**config), stop)))
            thread.start()
            threads.append(thread)
        return Fleet(a_worker.redis, root, base, queue)

    yield begin
    stop.set()
    for thread in threads:
        thread.join(30)
    assert codes == [0] * len(threads)


OLD = "tests/test_stock.py::test_red_for_months"
BROKEN: dict[str, str] = {
    "pyproject.toml": "[tool.mypy]\nignore_missing_imports = true\n",
    "prices.py": (
        'LIMIT: int = "none"  # a type error that nobody has mended\n\n\n'
        "def discount(price: int, percent: int) -> int:\n    return price + price * percent // 100\n"
    ),
    "stock.py": "def left() -> int:\n    return 1\n",
    "tests/test_prices.py": (
        "from prices import discount\n\n\ndef test_discount() -> None:\n    assert discount(100, 10) == 90\n"
    ),
    "tests/test_stock.py": (
        "from stock import left\n\n\ndef test_left() -> None:\n    assert left() == 1\n\n\n"
        "def test_red_for_months() -> None:\n    assert left() == 2\n"
    ),
}


@pytest.mark.long
def test_a_bug_is_repaired_in_a_repository_whose_tests_and_types_were_red_before(
    fleet: Callable[[str, Mapping[str, str]], Fleet], tmp_path: Path
) -> None:
    here = fleet("repair", BROKEN)
    tool(
        here.root,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={tmp_path / 'report.xml'}",
        f"--deselect={OLD}",
    )
    context = {"base_sha": here.base, "manifests": {"pyproject.toml": BROKEN["pyproject.toml"]}}
    (tmp_path / "goal.json").write_bytes(codec.dumps({"context": context}))

    plan_id = here.submit(str(tmp_path / "goal.json"), "--from-junit", str(tmp_path / "report.xml"), "-f", "prices.py")

    view = here.end(plan_id)
    assert view.state == "COMPLETED", view.halt
    assert here.failing(plan_id) == {OLD}  # it was red before, and is; what the goal names is green
    verified = {step.step_id: step.verify for step in view.steps}
    assert "mypy" in verified["reproduce"]
    assert "mypy" not in verified["implement-fix"]  # any more: it was red before, too
    assert verified["verify-regression-baseline"] == verified["verify-regression"]


PLACES = [f"shop/part_{number}.py" for number in range(6)]
RENAMED: dict[str, str] = {
    "shop/__init__.py": "",
    "shop/money.py": "def total(rows):\n    return sum(rows)\n",
    **dict.fromkeys(PLACES, "from shop import money\n\n\ndef of(rows):\n    return money.total(rows)\n"),
    "shop/report.py": 'from shop import money\n\n\ndef of(rows):\n    return getattr(money, "total")(rows)\n',
    "tests/test_shop.py": (
        "from importlib import import_module\n\nimport pytest\n\nfrom shop import money\n\n\n"
        '@pytest.mark.parametrize("name", [*(f"part_{n}" for n in range(6)), "report"])\n'
        "def test_of(name):\n"
        '    assert import_module(f"shop.{name}").of([1, 2]) == 3\n\n\n'
        "def test_money():\n    assert money.total([1]) == 1\n"
    ),
}


@pytest.mark.long
def test_a_rename_over_nine_files_whose_first_attempt_breaks_a_test_is_mended(
    fleet: Callable[[str, Mapping[str, str]], Fleet],
) -> None:
    here = fleet("rename", RENAMED)
    files = ["shop/money.py", *PLACES, "shop/report.py", "tests/test_shop.py"]

    plan_id = here.submit(
        "--goal", "Rename the function total in shop/money.py to grand_total", *(f"--file={each}" for each in files)
    )

    view = here.end(plan_id)
    assert view.state == "COMPLETED", view.halt
    assert len(files) == 9
    assert here.failing(plan_id) == set()
    assert any(step.step_id.endswith("-mend") or (step.attempt > 1 and step.allowed_files) for step in view.steps)
    texts = ((here.root.parent / plan_id / path).read_text() for path in files)
    assert all("grand_total" in text for text in texts)


LINTED = {"pyproject.toml": "[tool.ruff]\n"}
MODULES = [f"shop/part_{number:02}.py" for number in range(12)]
UNUSED = "".join(f"import {name}\n" for name in ("csv", "glob", "json", "shutil", "zlib"))


@pytest.mark.long
def test_sixty_findings_in_twelve_files_are_mended_each_piece_judged_by_its_own_files(
    fleet: Callable[[str, Mapping[str, str]], Fleet], tmp_path: Path
) -> None:
    files = dict.fromkeys(MODULES, f"{UNUSED}\n\ndef of(rows):\n    return sum(rows)\n")
    test = "from shop.part_00 import of\n\n\ndef test_of():\n    assert of([1]) == 1\n"
    here = fleet("lint", {**files, **LINTED, "shop/__init__.py": "", "tests/test_shop.py": test})
    found = tool(here.root, "ruff", "check", "--no-cache", "--isolated", "--output-format=sarif", "shop").stdout
    (tmp_path / "ruff.sarif").write_text(found)
    assert len(codec.loads(found)["runs"][0]["results"]) == 60

    plan_id = here.submit("--from-sarif", str(tmp_path / "ruff.sarif"), "-f", "shop/part_*.py")

    view = here.end(plan_id)
    assert view.state == "COMPLETED", view.halt
    patches = [step for step in view.steps if step.allowed_files]
    assert {path for step in patches for path in step.allowed_files} == set(MODULES)
    for step in patches:
        judged = set(re.findall(r"\S+\.py", step.verify))
        assert judged
        assert judged <= set(step.allowed_files)
    assert here.failing(plan_id) == set()
    assert tool(here.root.parent / plan_id, "ruff", "check", "--no-cache", "--isolated", "shop").returncode == 0


OTHERS = [f"shop/part_{number:02}.py" for number in range(8)]
SPREAD: dict[str, str] = {
    "pyproject.toml": "[tool.ruff]\n[tool.mypy]\n[tool.pytest.ini_options]\npythonpath = ['.']\n",
    "shop/__init__.py": "",
    **dict.fromkeys(OTHERS, "import csv\n\n\ndef of(rows):\n    return sum(rows)\n"),
    "shop/tax.py": "def after(amount: int, percent: int) -> int:\n    return amount + amount * percent // 100\n",
    "shop/cart.py": (
        "from shop.tax import after\n\n"
        'LIMIT: int = "none"  # a type error that nobody has mended\n\n\n'
        "def total(amount: int) -> int:\n    found = after(amount, 10)\n    if found > amount:\n"
        '        raise ValueError(f"{found} is more than {amount}")\n    return found\n'
    ),
    "tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    assert total(100) == 90\n",
}


@pytest.mark.long
def test_gaps_are_closed_by_an_agent_that_knows_its_spec_alone_and_errs_at_every_third_step(
    fleet: Callable[[str, Mapping[str, str]], Fleet], tmp_path: Path
) -> None:
    here = fleet("ordinary", SPREAD)
    found = tool(here.root, "ruff", "check", "--no-cache", "--output-format=sarif", ".").stdout
    (tmp_path / "ruff.sarif").write_text(found)
    tool(here.root, "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={tmp_path / 'report.xml'}")
    asked = ("-f", "shop/*.py")

    tests = here.end(
        here.submit("--from-sarif", f"{tmp_path}/ruff.sarif", "--from-junit", f"{tmp_path}/report.xml", *asked)
    )
    lint = here.end(here.submit("--from-sarif", f"{tmp_path}/ruff.sarif", *asked))

    assert tests.state == "COMPLETED", tests.halt
    steps = {step.step_id: step for step in tests.steps}
    assert steps["action-1"].allowed_files == ("shop/cart.py",)  # whose name the traceback has, and which is innocent
    assert steps["action-1-r2"].allowed_files == ("shop/tax.py",)  # which the exploration found
    assert here.failing(tests.plan_id) == set()
    assert lint.state == "COMPLETED", lint.halt
    assert tool(here.root.parent / tests.plan_id, "ruff", "check", "--no-cache", "--isolated", "shop").returncode == 1
    repository.check_out(here.root, f"planner/{lint.plan_id}", here.root.parent / lint.plan_id)
    assert tool(here.root.parent / lint.plan_id, "ruff", "check", "--no-cache", "--isolated", "shop").returncode == 0
    assert len(list((tmp_path / "turns").iterdir())) // 3 >= 2  # mistakes were made
