"""A step that may change what is installed, and those after it, ask for a setup."""

from __future__ import annotations

from tasks.features.setting_up import ask
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.plans import Running, a_check, a_step

PYTEST = (CATALOGUE.match("pytest"),)
ASKING = (True, ("setup",))


def asked(*steps: str) -> dict[str, tuple[bool, tuple[str, ...]]]:
    made = (
        a_step("before"),
        a_step("deps", files=["pyproject.toml"], tools=PYTEST),
        a_check("install", "deps"),
        a_check("last", "install"),
        a_check("apart", "before"),
    )
    return {step.step_id: (step.setup, step.requires) for step in ask(None, made) if step.step_id in steps}


def test_who_changes_a_manifest_and_who_waits_for_that_asks_for_a_setup() -> None:
    found = asked("deps", "install", "last", "before", "apart")

    assert found == {"deps": ASKING, "install": ASKING, "last": ASKING, "before": (False, ()), "apart": (False, ())}


def test_a_lock_file_counts_and_what_has_no_verification_does_not_ask() -> None:
    files = ["web/pnpm-lock.yaml"]
    locked, unverified = ask(None, (a_step("lock", files=files, tools=PYTEST), a_step("more", files=files)))

    assert (locked.setup, unverified.setup) == (True, False)


def test_the_spec_says_so_where_it_is_asked_for_and_nothing_else() -> None:
    plan = Running(a_step("deps", files=["go.mod"], tools=PYTEST))
    other = Running(a_step("fix", files=["src/a.py"]))

    (spec,), (usual,) = plan.waiting("default"), other.waiting("default")

    assert (spec["setup"], spec["requires"]) == (True, ["setup"])
    assert not {"setup", "requires"} & usual.keys()
