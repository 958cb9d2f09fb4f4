"""The strict mode of a type checker: a configuration outside of the clone.

Nothing in the repository can loosen it, and no file of the repository is changed. The project's own configuration gives
only its environment: where modules are, and the version of Python.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tasks.toolchain.catalogue import CATALOGUE
from worker.controller import snapshot
from worker.controller.reports import Reporting
from worker.controller.wire import Tool
from worker.sandbox.user import PASSABLE

CONFIGURATION, MANIFEST = "pyrightconfig.json", "pyproject.toml"
MAX_BYTES = 1024 * 1024
_FIXED = ("pythonVersion", "pythonPlatform", "venv", "defineConstant")  # settings without a path
_PATHS = ("stubPath", "venvPath")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


@contextmanager
def strict_run(tool: Tool, argv: Sequence[str], root: Path) -> Iterator[Reporting | None]:
    """Yield the strict run of a tool in the clone at `root`, while the block lasts; None if it has no strict mode."""
    contract = CATALOGUE.contracts.get(tool.tool)
    found = contract.read(tool.argv) if contract and contract.strict_by else None
    if contract is None or found is None:
        yield None
        return
    with TemporaryDirectory(prefix="planner-strict-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(PASSABLE)
        folder = Path(name).resolve() / "types"
        folder.mkdir()
        file = folder / CONFIGURATION
        file.write_text(json.dumps(configuration(root, tool.cwd)), encoding="utf-8")
        at = len(argv) - len(tool.argv) + len(found.spelling)  # the program may be called as a module instead
        yield Reporting([*argv[:at], contract.strict_by, str(file), *argv[at:]], folder=folder)


def configuration(root: Path, folder: str) -> dict[str, Any]:
    """Return the configuration of pyright for a run in a `folder` of the clone at `root`.

    Relative paths of a configuration begin at its own place, so all of ours are absolute.
    """
    above = [Path(folder), *Path(folder).parents]
    place, known = next(_configured(root, above), (Path(folder), {}))
    here = root / place
    environments = _listed(known, "executionEnvironments")
    paths = {name: str(here / known[name]) for name in _PATHS if isinstance(known.get(name), str)}
    extra = _extra_paths(known, here)
    return {
        "stubPath": str(here / "typings"),
        **{name: known[name] for name in _FIXED if name in known},
        **paths,
        "extraPaths": list(dict.fromkeys([*extra, str(here), str(here / "src"), str(root)])),
        "executionEnvironments": [_environment(each, here, extra) for each in environments if isinstance(each, dict)],
        "typeCheckingMode": "strict",
    }


def _listed(known: Mapping[str, Any], name: str) -> list[Any]:
    found = known.get(name)
    return found if isinstance(found, list) else []


def _extra_paths(known: Mapping[str, Any], here: Path) -> list[str]:
    return [str(here / path) for path in _listed(known, "extraPaths") if isinstance(path, str)]


def _environment(each: Mapping[str, Any], here: Path, extra: Sequence[str]) -> dict[str, Any]:
    kept = {name: each[name] for name in ("pythonVersion", "pythonPlatform") if name in each}
    paths = [*(_extra_paths(each, here) or extra), str(here)]
    return {**kept, "root": str(here / str(each.get("root", "."))), "extraPaths": paths}


def _configured(root: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the configurations of pyright above a run, with their folders, in pyright's order."""
    for folder in folders:
        with suppress(OSError, ValueError):
            text = _COMMENT.sub(r"\1", _text(root, folder / CONFIGURATION))
            if isinstance(found := json.loads(_LAST_COMMA.sub(r"\1", text)), dict):
                yield folder, found
    for folder in folders:
        with suppress(OSError, ValueError):
            found = tomllib.loads(_text(root, folder / MANIFEST)).get("tool", {}).get("pyright")
            if isinstance(found, dict):
                yield folder, found


def _text(root: Path, path: Path) -> str:
    return snapshot.read(root, str(path).encode(), MAX_BYTES).decode(errors="replace")
