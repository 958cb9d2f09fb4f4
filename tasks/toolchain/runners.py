"""Selects the runner of a project's tests by the configuration in its manifests."""

from __future__ import annotations

import json
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
_RUN_NAMED = {"npm": "npm run", "pnpm": "pnpm run", "yarn": "yarn run", "bun": "bun run"}
_EXECUTE = {"npm": "npx", "pnpm": "pnpm exec", "yarn": "yarn", "bun": "bunx"}
_NODE = frozenset({"javascript", "typescript"})
_AND = re.compile(r"\s*&&\s*")
_ELSE_OF_SHELL = re.compile(r"[|;<>`$()]")
_NAMED = re.compile(r"(?:npm|pnpm|yarn|bun)(?: run)? (?:-s |--silent )?(?P<name>[\w:.-]+)")
_RUNS_TESTS = re.compile(r"(?:vitest|jest|mocha|ava|playwright test|node --test|bun test|deno test)\b")
_OUTPUT = r"(?: (?:--reporter|-R)(?: |=)[\w-]+| --colors?)*"
_PROGRAM = re.compile(r"(?:node|bun|deno)\b")
_RUNS_NONE = re.compile(r"(?:eslint|prettier|tsc|tsd|xo|standard|oxlint|oxfmt|biome|attw|publint)\b")


def package_manager(manifests: Mapping[str, str], files: Collection[str]) -> str:
    """Return the package manager of a project at the root: `packageManager`, else that of its lock file, else npm."""
    if asked := _MANAGER.search(manifests.get("package.json", "")):
        return asked[1]
    return next((name for lock, name in _LOCK_FILES.items() if lock in files or lock in manifests), "npm")


def runner_commands(language: Language, manifests: Mapping[str, str], files: Collection[str]) -> Iterator[str]:
    """Yield the commands of the test runners that the root's manifests configure; each can also run a single test."""
    manager = _EXECUTE[package_manager(manifests, files)]
    for toolchain in TOOLCHAINS:
        for runner in toolchain.runners if language in toolchain.languages else ():
            if command := runner.command_in(manifests, files):
                yield re.sub(r"^npx\b", manager, command)


def whole_commands(language: Language, manifests: Mapping[str, str], files: Collection[str]) -> Iterator[str]:
    """Yield the commands that run all tests, best first; none if only the default one applies.

    A script `test` that also lints can fail although all tests pass. So the part of this script that runs tests comes
    before the whole script.
    """
    package = manifests.get("package.json", "")
    if language.name in _NODE and _TEST_SCRIPT.search(package):
        manager = package_manager(manifests, files)
        yield from _link_that_tests(_scripts(package), manager)
        yield _RUN_SCRIPT[manager]
        return
    yield from list(runner_commands(language, manifests, files))[:1]


def part_options(tool: str, manifests: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that `tool` needs if it runs only a part of the tests of a project with these manifests."""
    known = (each for toolchain in TOOLCHAINS for each in toolchain.part_options)
    return tuple(each.option for each in known if tool in each.tools and each.is_needed(manifests))


def _scripts(package: str) -> Mapping[str, str]:
    try:
        found = json.loads(package)["scripts"].items()
    except (ValueError, KeyError, TypeError, AttributeError):  # it was truncated, or has none
        return {}
    return {name: text for name, text in found if isinstance(text, str)}


def _link_that_tests(scripts: Mapping[str, str], manager: str) -> tuple[str, ...]:
    """Return the commands for the only part of a chained script `test` that runs tests, best first.

    There is none if another part may run tests, too. The catalogue may refuse the name of a script, or an option. So
    the runner of the script follows, then the runner without options that only change its output.
    """
    links = _AND.split(scripts.get("test", "").strip())
    found: list[tuple[str, ...]] = []
    for link in links if len(links) > 1 else ():
        named = _NAMED.fullmatch(link)
        script = scripts.get(named["name"], "") if named else link
        words = re.sub(r"^(?:npx|pnpm exec|yarn exec|bunx) ", "", script)
        if _RUNS_NONE.match(words):
            continue
        runner = _RUNS_TESTS.match(words)
        if not runner or _AND.search(words) or _ELSE_OF_SHELL.search(words):
            return ()
        words = re.sub(r"^vitest(?! run\b)", "vitest run", words).replace(" --typecheck", "")  # which is no test
        before = "" if _PROGRAM.match(words) else f"{_EXECUTE[manager]} "
        by_name = (f"{_RUN_NAMED[manager]} {named['name']}",) if named else ()
        bare = re.sub(r"^vitest$", "vitest run", runner[0])
        has_only_output = re.fullmatch(re.escape(bare) + _OUTPUT, words)
        found.append((*by_name, before + words, *([before + bare] if has_only_output and bare != words else ())))
    return found[0] if len(found) == 1 else ()
