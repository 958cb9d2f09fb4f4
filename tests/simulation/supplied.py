"""What people and explorers bring along with a goal: planned steps, tasks of a campaign, an exploration."""

from __future__ import annotations

from typing import Any

from tests.simulation.layouts import stem
from tests.simulation.repository import Repository, Work


def pairs(repository: Repository) -> list[tuple[str, str]]:
    """The sources to change, each with its test."""
    tests = {stem(item.file): item.file for item in repository.items if item.work is Work.TESTS}
    sources = [item.file for item in repository.items if item.work is Work.FEATURE]
    return [(source, tests[stem(source)]) for source in sources]


def chain(repository: Repository) -> list[dict[str, Any]]:
    """One step a source with its test, each after the one before, and all tests at the end."""
    steps: list[dict[str, Any]] = []
    for source, test in pairs(repository):
        steps.append(
            {
                "step_id": f"do-{stem(source)}",
                "title": f"Change {stem(source)}",
                "intent": f"Add the {repository.items[0].what} to {stem(source)}, and a test of it",
                "allowed_files": [source, test],
                "depends_on": [steps[-1]["step_id"]] if steps else [],
                "verify": f"pytest -q {test}",
            }
        )
    return [*steps, _all_tests([steps[-1]["step_id"]])]


def diamond(repository: Repository) -> list[dict[str, Any]]:
    """The definition first, what uses it in three pieces side by side, and all tests at the end."""
    first, *uses = (item.file for item in repository.items)
    symbol = repository.items[0].what
    pieces = [[first], uses[0::3], uses[1::3], uses[2::3]]
    steps = [
        {
            "step_id": f"part-{at}",
            "title": f"Rename, part {at}",
            "intent": f"Rename {symbol} to {symbol}_of_item in {', '.join(map(stem, files))}",
            "allowed_files": files,
            "depends_on": ["part-0"] if at else [],
            "verify": f"python -m py_compile {' '.join(files)}",
        }
        for at, files in enumerate(pieces)
    ]
    return [*steps, _all_tests(["part-1", "part-2", "part-3"])]


def _all_tests(after: list[str]) -> dict[str, Any]:
    step = {"step_id": "all-tests", "title": "Run all tests", "intent": "See that nothing broke", "mode": "test"}
    return {**step, "depends_on": after, "verify": "pytest -q"}


def campaign_tasks(repository: Repository) -> list[dict[str, Any]]:
    """Tests first, then code, for each source, and one verification of all."""
    tasks: list[dict[str, Any]] = []
    for source, test in pairs(repository):
        number = f"{len(tasks) + 1:03}"
        spec = {"seq": number, "slug": f"spec-{stem(source)}", "type": "SPEC", "delta": [test], "depends": "none"}
        built = {"seq": f"{len(tasks) + 2:03}", "slug": f"build-{stem(source)}", "type": "BUILD", "delta": [source]}
        tasks.append({**spec, "verify": "python-syntax"})
        tasks.append({**built, "depends": number, "verify": f"pytest -q {test}"})
    last = {"seq": f"{len(tasks) + 1:03}", "slug": "verify-all", "type": "VERIFY", "delta": [], "verify": "pytest -q"}
    return [*tasks, {**last, "depends": [task["seq"] for task in tasks if task["type"] == "BUILD"]}]


def exploration(repository: Repository, relevance: str = "high") -> dict[str, Any]:
    """What explorers found in four modes: where the code is that has to change, and how it is tested."""
    candidates = [
        {"path": source, "relevance": relevance if not at else "medium", "functions": [{"name": "run", "line": 12}]}
        for at, (source, _) in enumerate(pairs(repository))
    ]
    count = len(repository.files)
    structure = {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": count, "language": "python"}
    return {
        "structure": structure,
        "pattern": {"status": "ok", "framework": "none", "confidence": 0.5},
        "memory": {"status": "ok"},
        "delta": {"status": "ok", "candidates": candidates},
    }
