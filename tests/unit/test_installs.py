"""Each module of ours belongs to one extra, and imports no module of an extra that it cannot count on."""

from __future__ import annotations

from typing import Any

from tests.installs import licences
from tests.installs.groups import BARE, GROUPS, extras, group_of, imports_of, modules

MODULES = modules()
LATE = {  # a module, and an extra whose modules it imports once it knows that they can be used
    ("worker.cli.commands.demo", "demo"),
    ("worker.cli.commands.schemas", "gateway"),
    ("worker.cli.commands.up", "local"),
    ("worker.cli.commands.webhook", "gateway"),
    ("worker.cli.console", "local"),
    ("worker.gateway.app", "mcp"),
    ("worker.telemetry.tracing", "otel"),
}


def test_every_module_belongs_to_a_group() -> None:
    assert {group_of(module) for module in MODULES} == set(GROUPS)


def test_every_prefix_names_a_module_and_belongs_to_one_group() -> None:
    prefixes = [prefix for group in GROUPS.values() for prefix in group]
    assert len(set(prefixes)) == len(prefixes)
    assert set(prefixes) <= set(MODULES)


def test_every_extra_is_a_group_of_modules() -> None:
    assert set(extras()) == set(GROUPS) - {BARE}


def test_no_module_imports_one_of_an_extra_that_its_own_does_not_bring() -> None:
    known, brought = set(MODULES), extras() | {BARE: frozenset({BARE})}
    foreign = {
        (module, group_of(name))
        for module in MODULES
        for each in imports_of(module)
        for name in (each.name, each.name.rpartition(".")[0])
        if name in known and group_of(name) not in brought[group_of(module)] and not each.is_guarded
    }
    assert foreign == LATE


def test_a_licence_beside_those_of_the_list_is_named() -> None:
    def component(name: str, *found: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "licenses": list(found)}

    components = [
        component("free", {"license": {"id": "MIT"}}),
        component("choice", {"expression": "MIT OR (Apache-2.0 AND BSD-3-Clause)"}),
        component("excused", {"license": {"id": "MPL-2.0"}}),
        component("copyleft", {"expression": "MIT AND GPL-3.0-only"}),
        component("named", {"license": {"name": "License :: Other"}}),
        component("silent"),
    ]
    wrong = licences.troubles(components, ["MIT", "Apache-2.0", "BSD-3-Clause"], {"excused": "a list of data"})
    assert [sentence.split()[0] for sentence in wrong] == ["copyleft", "named", "silent"]
