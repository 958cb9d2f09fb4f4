"""Chooses what runs a project's tests by what its manifests configure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from tasks.toolchain.language import Language
from tasks.toolchain.languages import TOOLCHAINS

_TEST_SCRIPT = re.compile(r'"test"\s*:\s*"(?!echo \\"Error: no test specified)')  # npm's own words for none
_MANAGER = re.compile(r'"packageManager"\s*:\s*"(npm|pnpm|yarn|bun)@')
_LOCK_FILES = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_RUN_SCRIPT = {"npm": "npm test", "pnpm": "pnpm test", "yarn": "yarn test", "bun": "bun run test"}
_EXECUTE = {"npm": "npx", "pnpm": "pnpm exec", "yarn": "yarn", "bun": "bunx"}
_NODE = frozenset({"javascript", "typescript"})


def package_manager(manifests: Mapping[str, str], files: Collection[str]) -> str:
    """Name the package manager that a project at the root asks for: `packageManager`, else its lock file, else npm."""
    if asked := _MANAGER.search(manifests.get("package.json", "")):
        return asked[1]
    return next((name for lock, name in _LOCK_FILES.items() if lock in files or lock in manifests), "npm")


def runner_commands(language: Language, manifests: Mapping[str, str], files: Collection[str]) -> Iterator[str]:
    """Yield the commands of the runners that the manifests at the root configure, which may be aimed at one test."""
    manager = _EXECUTE[package_manager(manifests, files)]
    for toolchain in TOOLCHAINS:
        for runner in toolchain.runners if language in toolchain.languages else ():
            if command := runner.command_in(manifests, files):
                yield re.sub(r"^npx\b", manager, command)


def whole_command(language: Language, manifests: Mapping[str, str], files: Collection[str]) -> str | None:
    """Choose the command that runs all tests; None where nothing speaks for another than the language's usual one."""
    if language.name in _NODE and _TEST_SCRIPT.search(manifests.get("package.json", "")):
        return _RUN_SCRIPT[package_manager(manifests, files)]
    return next(runner_commands(language, manifests, files), None)
