"""Inside a ring, too, imports go one way: folders have an order, and kinds of goal do not know each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.imports import imports_of

ROOT = Path(__file__).parents[2]
FLOORS = {  # each folder imports itself and those before it; "" are the modules at the root of the ring
    "tasks": (
        "base",
        "text",
        "toolchain",
        "memory",
        "plan",
        "rules",
        "strategies",
        "policy",
        "features",
        "delivered",
        "handlers",
        "record",
        "",
    ),
    "worker": (
        *(
            "host",
            "sandbox",
            "settings",
            "sources",
            "store",
            "streams",
            "telemetry",
            "webhooks",
            "delivered",
            "agents",
            "drafters",
            "engine",
            "callbacks",
            "process",
            "",
        ),
        *("doctor", "render", "client", "record", "controller", "demo", "mcp", "gateway", "cli"),
    ),
}
FEATURES = ROOT / "tasks/features"
FEATURE_FILES = sorted({*FEATURES.rglob("*.py")} - {FEATURES / "__init__.py"})
KINDS = ("task", "campaign", "gap_report", "reviewed_plan", "evolution")


def folder_of(name: str, ring: str) -> str:
    """Name the folder of `ring` in which the module `name` lies; the root has the empty name."""
    first = name.split(".")[1]
    return first if (ROOT / ring / first).is_dir() else ""


def arrows(ring: str) -> Iterator[tuple[str, str, str]]:
    """Yield module, its folder, and the folder of the same ring from which it imports."""
    for path in sorted((ROOT / ring).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in imports_of(path):
            if name.startswith(f"{ring}."):
                yield f"{module} imports {name}", folder_of(module, ring), folder_of(name, ring)


@pytest.mark.parametrize("ring", FLOORS)
def test_every_folder_has_its_floor(ring: str) -> None:
    folders = {path.name for path in (ROOT / ring).iterdir() if (path / "__init__.py").exists()}

    assert folders == set(FLOORS[ring]) - {""}


@pytest.mark.parametrize("ring", FLOORS)
def test_no_folder_imports_one_above_it(ring: str) -> None:
    floor = FLOORS[ring].index
    found = list(arrows(ring))

    assert len(found) > 100
    assert [what for what, here, there in found if floor(there) > floor(here)] == []


def test_nothing_but_the_command_line_and_the_demo_imports_the_controller() -> None:
    found = {here for _, here, there in arrows("worker") if there == "controller"}

    assert found <= {"controller", "cli", "demo"}


def test_the_root_of_the_worker_has_few_modules() -> None:
    assert len(list((ROOT / "worker").glob("*.py"))) <= 8


def test_a_feature_imports_no_other_and_never_schedules() -> None:
    owner = {path: path.relative_to(FEATURES).parts[0] for path in FEATURE_FILES}
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, own in owner.items()
        for name in imports_of(path)
        if name.startswith(("tasks.features.", "tasks.policy.schedule", "tasks.policy.plain"))
        and name.split(".")[2] != own.removesuffix(".py")
    ]

    assert len(owner) > 10
    assert found == []


def test_policy_and_handlers_meet_features_in_their_tables_alone() -> None:
    paths = [path for folder in ("policy", "handlers") for path in (ROOT / "tasks" / folder).glob("[!_]*.py")]
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in imports_of(path)
        if name.startswith("tasks.features")
    ]

    assert found == []


def test_a_kind_of_goal_imports_no_other_kind() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for kind in (*KINDS, "drafting")
        for path in (ROOT / "tasks" / "strategies" / kind).rglob("*.py")
        for name in imports_of(path)
        if name.startswith("tasks.strategies.") and name.split(".")[2] not in (kind, "drafting")
    ]

    assert found == []
