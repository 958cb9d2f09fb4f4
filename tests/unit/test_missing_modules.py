"""An import of what is not there: setup again where it is declared, else a person; of our own, guidance."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.modules import MOST_NAMES, Origin, aliases_in, missing_in, modules_of, names_in, origin_of
from tests.support.commands import an_order
from tests.support.plans import Running, a_check, a_report, a_step

MANIFESTS = {"pyproject.toml": '[project]\ndependencies = ["requests>=2", "PyYAML", "scikit_learn[all]~=1.4"]\n'}
CONTEXT: dict[str, Any] = {"manifests": MANIFESTS, "files": ["src/shop/cart.py", "src/a.py"]}


def missing(module: str, step: str = "a", attempt: int | None = None) -> Any:
    trace = f"ModuleNotFoundError: No module named '{module}'"
    return a_report(
        step, attempt, success=False, failure_evidence={"category": "IMPORT_ERROR", "stack_trace_head": trace}
    )


def running(context: Any = CONTEXT, **limits: Any) -> Running:
    step = a_step("a", tools=(CATALOGUE.match("pytest"),))
    return Running(step, a_check("t", "a"), files=["src/a.py"], context=context, **limits)


@pytest.mark.parametrize("module", ["requests", "yaml", "sklearn.cluster", "requests.adapters"])
def test_a_declared_module_has_the_setup_run_again_before_the_next_attempt(module: str) -> None:
    plan = running()

    plan.report(missing(module))

    before = plan.facts["a-dependencies"]
    assert (before["setup"], before["verify"], plan.facts["a"]["setup"]) == (True, "python -m pip check", True)
    plan.report(a_report("a-dependencies"))
    assert plan.specs[-1]["step_id"] == "a"
    assert plan.specs[-1]["setup"] is True
    plan.report(a_report("a", touched_files=["src/a.py"]))
    assert plan.states["a"] == "DONE"


def test_the_setup_is_asked_for_once() -> None:
    plan = running(identical_failures=None)
    plan.report(missing("requests"))
    plan.report(a_report("a-dependencies"))

    plan.report(missing("requests", attempt=2))

    assert plan.steps["a"].failures == 2

    assert [name for name in plan.facts if name.startswith("a-")] == ["a-dependencies"]


def test_a_step_that_only_tests_has_its_setup_run_again_too() -> None:
    plan = running()
    plan.report(a_report("a", touched_files=["src/a.py"]))

    plan.report(missing("yaml", "t"))

    assert plan.facts["t"]["setup"] is True
    assert "t-mend" not in plan.facts


def test_a_module_that_nobody_declared_is_a_persons_to_decide() -> None:
    plan = running(consecutive_failures=1)

    plan.report(missing("leftpad"))

    assert ([*plan.record.waits], plan.active, plan.state) == (["a"], {}, "EXECUTING")
    (asked,) = [each for each in plan.events if "approval" in each]
    assert asked.endswith("step.approval_requested.v1")
    plan.obey(an_order("approve", "a"))
    assert [*plan.active] == ["a"]
    assert "no manifest declares it" in plan.specs[-1]["context"]["previous_failure"]["suggestion"]
    assert not any("leftpad" in str(tool) for spec in plan.specs for tool in spec["verify_tools"])


def test_a_person_is_asked_once_about_a_module() -> None:
    plan = running()
    plan.report(missing("leftpad"))
    plan.obey(an_order("approve", "a"))

    plan.report(missing("leftpad", attempt=2))

    assert (plan.record.waits, plan.steps["a"].failures) == ({}, 1)


def test_the_repositorys_own_module_is_told_to_the_next_attempt() -> None:
    plan = running()

    plan.report(missing("shop.carts"))

    assert "shop.carts is the repository's own" in plan.facts["a"]["guidance"]
    assert "a-dependencies" not in plan.facts


@pytest.mark.parametrize(
    ("module", "meant"), [("reqeusts", "requests"), ("dataclases", "dataclasses"), ("shpo", "shop")]
)
def test_a_module_that_is_misspelt_goes_back_to_the_agent_and_to_no_person(module: str, meant: str) -> None:
    plan = running()

    plan.report(missing(module))

    assert (plan.record.waits, plan.steps["a"].failures) == ({}, 1)
    assert f"The module {module} is not there: {meant} is, so write that." in plan.facts["a"]["guidance"]


@pytest.mark.parametrize("module", ["httpx", "ujson", "urllib3", "boto", "leftpad"])
def test_a_name_that_is_near_another_one_may_still_be_another_package(module: str) -> None:
    plan = running()

    plan.report(missing(module))

    assert [*plan.record.waits] == ["a"]


def test_aliases_of_typescript_are_the_repositorys_own() -> None:
    paths = '{"compilerOptions": {"paths": {"@app/*": ["src/*"], "shared": ["src/shared"] /* more */}}}'
    own = aliases_in({"tsconfig.json": paths})

    found = [missing_in(f"Cannot find module '{name}'") for name in ("@app/cart/rows", "shared", "@apps/cart")]

    assert own == ["@app/", "shared"]
    assert [origin_of(each, own, ()) for each in found if each] == [Origin.OWN, Origin.OWN, Origin.UNDECLARED]


def test_nothing_is_decided_where_a_goal_brings_no_manifest() -> None:
    plan = running({})

    plan.report(missing("leftpad"))

    assert (plan.record.waits, plan.facts["a"]["setup"]) == ({}, False)


def test_nobody_is_asked_where_the_manifests_have_too_many_names_to_keep() -> None:
    many = "\n".join(f"package-{number}x>=1" for number in range(MOST_NAMES + 1))
    plan = running({**CONTEXT, "manifests": {"requirements.txt": many}})

    plan.report(missing("leftpad"))

    assert (plan.record.waits, plan.steps["a"].failures) == ({}, 1)


@pytest.mark.parametrize(
    ("text", "files", "manifest", "origin"),
    [
        ("Error: Cannot find module './cart'", [], "", Origin.OWN),
        ("Cannot find module '@acme/ui/button'", [], '{"dependencies": {"@acme/ui": "1"}}', Origin.DECLARED),
        ("Failed to resolve import 'lodash-es'", [], '{"dependencies": {"lodash": "1"}}', Origin.UNDECLARED),
        ("no required module provides package example.com/x/y/z;", [], "require example.com/x/y v1", Origin.DECLARED),
        ("error[E0463]: can't find crate for `serde_json`", [], 'serde_json = "1"', Origin.DECLARED),
        ("ImportError: No module named yaml", ["yaml.py"], "", Origin.OWN),
        ("error[E0432]: unresolved import `crate::cart`", [], "", Origin.OWN),
        ("error[E0432]: unresolved import `super::cart`", [], "", Origin.OWN),
        ("error[E0432]: unresolved import `cart::Cart`", ["src/cart.rs"], "", Origin.OWN),
        ("error[E0432]: unresolved import `serde::Map`", ["src/cart.rs"], "", Origin.UNDECLARED),
        ("Cannot find module '@/lib/cart'", [], "", Origin.OWN),
        ("Cannot find module '~/lib/cart'", [], "", Origin.OWN),
        ("Failed to resolve import '#lib/cart'", [], "", Origin.OWN),
        ("Cannot find module 'lib/cart'", ["lib/cart.ts"], "", Origin.OWN),
        ("Cannot find module 'lib/cart'", ["src/lib/cart.ts"], "", Origin.OWN),
        ("Cannot find module 'redis'", ["src/redis.ts"], '{"dependencies": {"redis": "1"}}', Origin.DECLARED),
        ("Cannot find module 'redis'", ["src/deep/redis.ts"], "", Origin.UNDECLARED),
    ],
)
def test_whose_a_module_is(text: str, files: list[str], manifest: str, origin: Origin) -> None:
    found = missing_in(text)
    assert found is not None

    assert origin_of(found, modules_of(files), names_in({"manifest": manifest})) is origin


def test_a_failure_that_names_no_module_is_about_none() -> None:
    assert missing_in("ImportError: cannot import name 'x' from 'y'") is None
