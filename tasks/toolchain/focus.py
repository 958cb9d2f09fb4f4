"""Aims a verification at the one test that fails, within what it runs now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.step import VerifyTool
from tasks.toolchain.catalogue import Catalogue


def focus(tool: VerifyTool, tests: Sequence[str], catalogue: Catalogue) -> VerifyTool | None:
    """Aim `tool` at the first of `tests` that it runs; None where that cannot be.

    The names come from evidence: one that is not well formed, or outside of what the tool runs, is passed over. What
    is well formed is a rule of safety (no `@file`, no option), which holds at once for plans of every policy version.
    """
    contract = catalogue.contracts.get(tool.tool)
    reading = contract.read(tool.argv) if contract else None
    if contract is None or reading is None:  # an operator's, of a plan that was made before plans kept these
        return None
    places = () if contract.focus_option else [place.removeprefix("./") for place in reading.positionals]
    for test in (each for told in tests for each in _within(told.removeprefix("./"), places)):
        narrowed = catalogue.narrow(tool, (test,))
        if narrowed and contract.read(narrowed.argv) != reading:
            return narrowed.model_copy(update={"timeout_s": max(tool.timeout_s, narrowed.timeout_s)})
    return None


def _within(test: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the name of `test` as seen from each place that runs it.

    A tool without places runs all.
    """
    path, colons, name = test.partition("::")
    if not places:
        yield test
    for place in places:
        folder = place.removesuffix("...").rstrip("/")
        file, _, inner = place.partition("::")
        if folder in ("", ".") or path.startswith(folder + "/") or (path == file and name.startswith(inner)):
            yield test
        elif not inner and file.endswith("/" + path):
            yield file + colons + name
