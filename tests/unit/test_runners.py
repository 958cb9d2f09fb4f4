"""Which command runs a project's tests, by what its manifests configure."""

from __future__ import annotations

import pytest

from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.languages import LANGUAGES
from tasks.toolchain.runners import runner_commands, whole_command

JAVASCRIPT = LANGUAGES["javascript"]
NO_TESTS = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'


@pytest.mark.parametrize(
    ("package", "others", "whole", "focused"),
    [
        ('{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "^2"}}', (), "npm test", ["npx vitest run"]),
        ('{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}', (), "npm test", ["npx jest"]),
        (
            '{"scripts": {"test": "x"}, "devDependencies": {"mocha": "10"}}',
            ("pnpm-lock.yaml",),
            "pnpm test",
            ["pnpm exec mocha"],
        ),
        ('{"devDependencies": {"ava": "6"}, "packageManager": "yarn@4.1.0"}', (), "yarn ava", ["yarn ava"]),
        ('{"scripts": {"test": "node --test"}}', (), "npm test", ["node --test"]),
        ('{"scripts": {"test": "bun test"}}', ("bun.lock",), "bun run test", ["bun test"]),
        (
            '{"scripts": {"build": "tsc"}, "devDependencies": {"@playwright/test": "1"}}',
            (),
            "npx playwright test",
            ["npx playwright test"],
        ),
        (NO_TESTS, (), None, []),
    ],
)
def test_a_package_is_tested_by_its_own_runner_and_package_manager(
    package: str, others: tuple[str, ...], whole: str | None, focused: list[str]
) -> None:
    manifests = {"package.json": package}

    assert whole_command(JAVASCRIPT, manifests, others) == whole
    assert [*runner_commands(JAVASCRIPT, manifests, others)] == focused
    assert all(CATALOGUE.match(each).argv for each in (*focused, *filter(None, [whole])))


def test_a_package_that_was_not_read_is_tested_by_the_usual_command() -> None:
    assert whole_command(JAVASCRIPT, {}, ("package.json",)) is None
