"""What an environment has installed, as a CycloneDX list, and whether we may install it (.ci/licences.toml)."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from tests.installs.environments import Environment, check
from tests.installs.groups import ROOT

TOOL = "cyclonedx-bom==7.5.0"  # makes the lists, from an environment of its own
LISTS = ROOT / "dist/cyclonedx"
RULES = ROOT / ".ci/licences.toml"
WORDS = frozenset({"AND", "OR", "WITH"})


def write_list(tool: Environment, environment: Environment, name: str, *, is_all: bool) -> str:
    """Write the list of an environment to dist/cyclonedx; raises Broken for a licence that is not allowed."""
    file = LISTS / f"{name.replace(',', '+')}.json"
    LISTS.mkdir(parents=True, exist_ok=True)
    options = ("--no-validate", "--output-reproducible", "--output-format", "JSON", "--output-file", file)
    code, _, errors = tool.run("cyclonedx-py", "environment", *options, environment.bin / "python")
    check(code == 0, f"cyclonedx-py ended with {code}:\n{errors}")
    components = json.loads(file.read_text())["components"]
    rules = tomllib.loads(RULES.read_text())
    wrong = troubles(components, rules["allowed"], rules["exceptions"])
    if is_all:
        unused = rules["exceptions"].keys() - {each["name"] for each in components}
        wrong += [f"{each} has an exception in .ci/licences.toml, and is not installed" for each in sorted(unused)]
    check(not wrong, "\n".join(wrong))
    return f"{file.relative_to(ROOT)} lists {len(components)} packages, under allowed licences"


def troubles(components: list[dict[str, Any]], allowed: list[str], exceptions: dict[str, str]) -> list[str]:
    """Return a sentence for each component with a licence that is not allowed, or with none."""
    found = {each["name"]: _names(each.get("licenses", [])) for each in components if each["name"] not in exceptions}
    return [
        f"{name} has the licence {', '.join(sorted(names)) or '(none)'}, which .ci/licences.toml does not allow"
        for name, names in sorted(found.items())
        if not names or names - set(allowed)
    ]


def _names(licences: list[dict[str, Any]]) -> set[str]:
    """Return the SPDX identifiers of a component, and names of licences that have none."""
    names = set()
    for each in licences:
        if "expression" in each:
            names |= set(re.findall(r"[\w.+-]+", each["expression"])) - WORDS
        else:
            names.add(str(each["license"].get("id") or each["license"]["name"]))
    return names


def tool_in(folder: Path) -> Environment:
    """Install what makes the lists."""
    tool = Environment(folder)
    tool.add(TOOL)
    return tool
