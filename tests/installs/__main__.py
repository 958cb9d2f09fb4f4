"""Proves wheel, sdist, extras and image; ends with 1 if one of them does not work alone.

uv run python -m tests.installs                  # all, two to three minutes
uv run python -m tests.installs local image      # some
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.installs import image, licences, scenarios
from tests.installs.environments import COMMIT, Broken, Environment, build, check
from tests.installs.groups import BARE, LATE, RINGS, extras, imports_of, modules_of
from worker.host.code_version import CODE_VERSION
from worker.host.terminal import line

GROUPS_OF = {BARE: frozenset({BARE})} | extras()
ALL = ",".join(sorted(extras()))
BY_PIP = (BARE, "local")  # as a user would; uv is held to the same packages there, and is faster elsewhere
SCENARIOS: dict[str, Callable[[Environment], str]] = {
    BARE: scenarios.hints,
    "local": scenarios.over_redis,
    "local,gateway": scenarios.over_http,
}


def prove(name: str, wheel: Path, scratch: Path, tool: Environment) -> list[str]:
    """Prove one installation; returns what was seen, raises Broken."""
    environment = Environment(scratch / name.replace(",", "+"))
    if name == "image":
        return [image.lay_out(environment), image.serve(environment)]
    extra = "" if name == BARE else name
    by_uv = environment
    if name in BY_PIP:
        environment.install_by_pip(wheel, extra)
        by_uv = Environment(scratch / f"{name}-by-uv")
        by_uv.install(wheel, extra)
        differing = environment.installed() ^ by_uv.installed()
        check(not differing, f"pip and uv install other packages: {sorted(differing)}")
    else:
        environment.install(wheel, extra)
    seen = [f"{len(environment.installed())} packages{' by pip, the same by uv' if name in BY_PIP else ''}"]
    seen.append(licences.write_list(tool, by_uv, name, is_all=name == ALL))
    groups = frozenset().union(*(GROUPS_OF[each] for each in name.split(",")))
    asked = {module: _others(module) for module in modules_of(groups)}
    seen.append(environment.python(Path(__file__).with_name("inside.py"), stdin=json.dumps(asked)).strip())
    seen.append(environment.planner("--version").strip())
    check(seen[-1] == f"planner-worker {CODE_VERSION} (commit {COMMIT})", f"planner --version prints {seen[-1]}")
    return seen + [scenario(environment) for each, scenario in SCENARIOS.items() if each == name]


def _others(module: str) -> list[str]:
    """Name the modules of other packages that a module imports and does not do without."""
    names = {each.name.rpartition(".")[0] or each.name for each in imports_of(module) if not each.is_guarded}
    return sorted(name for name in names if name.partition(".")[0] not in RINGS and (module, name) not in LATE)


def main(chosen: list[str]) -> int:
    """Prove what was chosen, two at a time; returns the exit code."""
    failed = 0
    with TemporaryDirectory(prefix="planner-installs-") as folder, ThreadPoolExecutor(2) as threads:
        scratch = Path(folder)
        wheel, tool = build(scratch), licences.tool_in(scratch / "cyclonedx")

        def timed(name: str) -> tuple[list[str], bool, float]:
            began = time.monotonic()
            try:
                return prove(name, wheel, scratch, tool), True, time.monotonic() - began
            except Broken as broken:
                return str(broken).splitlines(), False, time.monotonic() - began

        for name, (lines, holds, seconds) in zip(chosen, threads.map(timed, chosen), strict=True):
            line("\n  ".join([f"{name}: {'works' if holds else 'FAILED'} ({seconds:.0f} s)", *lines]))
            failed += not holds
    line(f"{len(chosen) - failed} passed, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    everything = ["image", *SCENARIOS, *(each for each in sorted(extras()) if each not in SCENARIOS), ALL]
    try:
        sys.exit(main(sys.argv[1:] or everything))
    except Broken as broken:
        sys.exit(str(broken))
