"""JavaScript and TypeScript: npm, jest, vitest, node, eslint, prettier and tsc."""

from __future__ import annotations

from functools import partial

from tasks.toolchain.contract import (
    AS_RAN,
    FILE_OF_TEST,
    SILENT,
    Contract,
    Part,
    ToolCategory,
    linter,
    path_tool,
    scripts,
    spell,
    test_runner,
    titles_by,
)
from tasks.toolchain.language import (
    TYPING,
    ConfiguredRunner,
    Language,
    LogSigns,
    PartOption,
    QuickCheck,
    Rank,
    Toolchain,
)
from tasks.toolchain.node_output import ESLINT, JS_TESTS, NODE, NPM, RUN, TSC

_JS = (".js", ".mjs", ".cjs")
_TS = (".ts", ".tsx", ".mts", ".cts")
_NODE = (*_JS, ".jsx", *_TS)

_RUNNERS = ("npx {}", "npx --no-install {}", "pnpm exec {}", "yarn {}", "bunx {}")


def _run_by(command: str) -> tuple[str, ...]:
    return tuple(each.format(command) for each in _RUNNERS)


# Messages of package managers that find no script, no package.json, or no program of that name, or refuse to run.
_REFUSED = ("its npm registry signature could not be verified", "EBADDEVENGINES")
_CRASHED = "Oops! Something went wrong! :("  # of ESLint, which a script may run before the tests
_NO_SCRIPT = (
    *("Missing script", "Could not read package.json", "ERR_PNPM_NO_SCRIPT", "ERR_PNPM_NO_IMPORTER_MANIFEST_FOUND"),
    *("Couldn't find a script named", "Couldn't find a package.json", "No package.json", "Script not found"),
    _CRASHED,
    *_REFUSED,
)
_NO_PROGRAM = (
    *("could not determine executable to run", "npx canceled due to missing packages"),
    *("Command failed with ENOENT", "Couldn't find a script named"),
    *_REFUSED,
)

_test_files = partial(test_runner, positional="path", timeout_s=300, focus=FILE_OF_TEST)
_JEST_PATHS = "--runTestsByPath"  # without it positionals are regular expressions
_TITLES = "--testNamePattern"  # of jest and vitest
_OWN_TITLE = "--test-name-pattern"  # of node, which matches suites by their own names, too
_WATCHLESS = ("--watchAll=false", "--run", "--ci")

_TOOLS = (
    Contract(
        id="npm-test",
        spellings=("npm test", "npm t"),
        example="npm test",
        category=ToolCategory.TEST,
        timeout_s=300,
        options=SILENT,
        tails=_WATCHLESS,
        ran_codes=AS_RAN,
        cannot_run=_NO_SCRIPT,
    ),
    _test_files(
        id="jest",
        spellings=_run_by("jest"),
        example="npx jest src/auth.test.js --verbose",
        options=(
            "--verbose|--silent|--ci|--bail|-i|--runInBand|--no-cache|--coverage(?:=false)?|--watchAll=false",
            _JEST_PATHS,
            titles_by(_TITLES),
        ),
        focus_exact=_JEST_PATHS,
        focus_title=_TITLES,
        cannot_run=(*_NO_PROGRAM, "No tests found, exiting with code 1"),
        reports=True,
    ),
    _test_files(
        id="vitest",
        spellings=_run_by("vitest run"),
        example="npx vitest run src/auth.test.ts",
        end_of_options=False,
        options=(
            "--silent|--no-coverage|--coverage|--bail=1|--reporter=(?:default|verbose|dot|junit|json)",
            titles_by(_TITLES),
        ),
        focus_title=_TITLES,
        cannot_run=(*_NO_PROGRAM, "No test files found", "failed to load config from"),
        reports=True,
    ),
    _test_files(
        id="node-test",
        spellings=("node --test",),
        example="node --test test/auth.test.js",
        options=(titles_by(_OWN_TITLE),),
        focus_title=_OWN_TITLE,
        focus_last_title=True,
        cannot_run=("Could not find '",),
        reports=True,
    ),
    _test_files(
        id="mocha",
        spellings=_run_by("mocha"),
        example="npx mocha test/auth.test.js",
        options=("--exit|--bail|--forbid-only|--recursive|--reporter=(?:spec|dot|min|tap|json)", titles_by("--grep")),
        focus_title="--grep",
        ran_codes=tuple(range(256)),  # the number of tests that failed
        cannot_run=(*_NO_PROGRAM, "No test files found"),
        reports=True,
    ),
    _test_files(
        id="ava",
        spellings=_run_by("ava"),
        example="npx ava test/auth.test.js",
        end_of_options=False,
        options=("--verbose|--serial|--fail-fast|--tap",),
        cannot_run=_NO_PROGRAM,
    ),
    _test_files(
        id="playwright",
        spellings=_run_by("playwright test"),
        example="npx playwright test tests/auth.spec.ts",
        end_of_options=False,
        options=("--forbid-only|--quiet|--reporter=(?:list|line|dot|json|junit)",),
        cannot_run=(*_NO_PROGRAM, "Executable doesn't exist at", "Error: No tests found."),
    ),
    _test_files(
        id="bun",
        spellings=("bun test",),
        example="bun test src/auth.test.ts",
        end_of_options=False,
        options=("--bail|--coverage",),
        cannot_run=("did not match any test files", "No tests found!"),
    ),
    _test_files(
        id="deno",
        spellings=("deno test",),
        example="deno test src/auth_test.ts",
        end_of_options=False,
        options=("-A|--allow-all|--allow-(?:read|env|net|run|sys)|--no-check|--fail-fast",),
        cannot_run=(
            *("No test modules found", "failed, not found."),
            *("JSR package manifest for", "error sending request for url"),
        ),
    ),
    path_tool(
        id="node-check",
        spellings=("node --check",),
        example="node --check src/auth.js",
        category=ToolCategory.VALIDATE,
        timeout_s=10,
        least=1,
        most=1,
    ),
    linter(
        id="eslint",
        spellings=spell("eslint", *_RUNNERS),
        example="npx eslint src",
        timeout_s=60,
        options=(r"--quiet|--no-color|--cache|--max-warnings=\d{1,4}",),
        cannot_run=(*_NO_PROGRAM, _CRASHED),
    ),
    linter(
        id="prettier",
        spellings=spell("prettier", *_RUNNERS),
        example="npx prettier --check src",
        timeout_s=60,
        least=1,
        required=("--check",),
        cannot_run=_NO_PROGRAM,
    ),
    Contract(
        id="tsc",
        spellings=spell("tsc", *_RUNNERS),
        example="npx tsc --noEmit",
        category=ToolCategory.TYPE_CHECK,
        timeout_s=120,
        options=("--strict|--skipLibCheck|--pretty",),
        required=("--noEmit",),
        ran_codes=(0, 1, 2),
        languages=("typescript",),
        cannot_run=(*_NO_PROGRAM, "This is not the tsc command you are looking for"),
    ),
)

_RUNNERS_OF_SCRIPTS = (
    *scripts("npm-run", ("npm run", "npm run-script"), _WATCHLESS, _NO_SCRIPT),
    *scripts("pnpm", ("pnpm", "pnpm run"), _WATCHLESS, _NO_SCRIPT),
    *scripts("yarn", ("yarn", "yarn run"), _WATCHLESS, _NO_SCRIPT),
    *scripts("bun", ("bun run",), _WATCHLESS, _NO_SCRIPT),
)

_DEPENDENCY = r'"{}"\s*:\s*"[^"]*"'


def _runner(name: str, command: str, sign: str = _DEPENDENCY) -> ConfiguredRunner:
    return ConfiguredRunner(command, within=("package.json",), sign=sign.format(name))


_TEST_RUNNERS = (
    _runner("node", "node --test", r'"test[\w:-]*"\s*:\s*"(?:[^"]*\s)?{} (?:[^"]*\s)?--test\b'),
    _runner("bun", "bun test", r'"test[\w:-]*"\s*:\s*"(?:[^"]*\s)?{} test\b'),
    _runner("vitest", "npx vitest run"),
    _runner("jest", "npx jest"),
    _runner("(?:ts-jest|react-scripts|jest-cli)", "npx jest"),
    _runner("mocha", "npx mocha"),
    _runner("ava", "npx ava"),
    _runner("@playwright/test", "npx playwright test"),
    ConfiguredRunner("deno test", files=("deno.json", "deno.jsonc")),
)

_WHOLE_COVERAGE = PartOption("--coverage=false", ("jest",), ("package.json",), r'"coverageThreshold"\s*:')

_ESLINT = Part("npx eslint", _NODE, "npx eslint .")
_TSC = Part("npx tsc --noEmit")
_TESTS = Part("npm test")
_SYNTAX = Part("node --check", _JS, each=True)

_ESLINT_CHECK = QuickCheck(
    "eslint",
    Part("npx eslint", _NODE),
    tuple(
        f"{name}.{suffix}"
        for name, suffixes in (("eslint.config", "js mjs cjs ts mts cts"), (".eslintrc", "js cjs json yml yaml"))
        for suffix in suffixes.split()
    ),
    ("package.json",),
    r'"eslint(?:Config)?"\s*:',
)
_TSC_CHECK = QuickCheck(
    "tsc",
    Part("npx tsc --noEmit", _TS, whole=True),
    ("tsconfig.json",),
    ("package.json",),
    r'"typescript"\s*:',
    both=True,
    about=TYPING,
)

_RECIPES = {
    "node-quick": (_ESLINT,),
    "node-full": (_ESLINT, _TSC, _TESTS),
}

_CHECKS = {
    "node-syntax": (_SYNTAX,),
    "node-types": (_TSC,),
    "node-test-only": (_TESTS,),
}

_TYPESCRIPT = Language(
    name="typescript",
    aliases=("ts", "tsx"),
    suffixes=_TS,
    manifests=("tsconfig.json",),
    quick="node-types",
    build="node-types",
    test="node-test-only",
    types=(_TSC,),
    fix=(_ESLINT,),
    quick_checks=((_ESLINT_CHECK,), (_TSC_CHECK,)),
    dependencies=(_TSC,),
)
_JAVASCRIPT = Language(
    name="javascript",
    aliases=("js", "jsx", "node", "nodejs"),
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    manifests=("package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"),
    quick="node-syntax",
    build="node-syntax",
    test="node-test-only",
    fix=(_ESLINT,),
    quick_checks=((_ESLINT_CHECK,),),
    dependencies=(_SYNTAX,),
    projects=(("package.json", r'"(?:scripts|dependencies|devDependencies|peerDependencies|workspaces)"\s*:'),),
)

TOOLCHAIN = Toolchain(
    languages=(_TYPESCRIPT, _JAVASCRIPT),
    tools=_TOOLS,
    scripts=_RUNNERS_OF_SCRIPTS,
    runners=_TEST_RUNNERS,
    part_options=(_WHOLE_COVERAGE,),
    recipes=_RECIPES,
    checks=_CHECKS,
    configuration=(
        "jest.config.*",
        "vitest.config.*",
        "vite.config.*",
        "babel.config.*",
        ".babelrc*",
        "eslint.config.*",
        ".eslintrc*",
        "prettier.config.*",
        ".prettierrc*",
        ".mocharc*",
        "tsconfig*.json",
        "package.json",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "deno.json",
        "deno.jsonc",
        "deno.lock",
    ),
    output={
        "jest": JS_TESTS + RUN,
        "vitest": JS_TESTS + RUN,
        "npm": JS_TESTS + RUN,
        "bun": JS_TESTS + RUN,
        "deno": JS_TESTS + RUN,
        "mocha": JS_TESTS + RUN,
        "ava": JS_TESTS + RUN,
        "playwright": JS_TESTS + RUN,
        "node": JS_TESTS + NODE,
        "eslint": ESLINT + NODE,
        "prettier": ESLINT,
        "tsc": TSC + NODE,
    },
    ranked={Rank.RUNNER: JS_TESTS, Rank.CHECK: TSC + ESLINT, Rank.INSTALLER: NPM, Rank.RUNTIME: NODE},
    signs=LogSigns(
        dependency=r"\bERESOLVE\b|incompatible peer dependenc",
        build=r"\berror TS\d{4}\b",
        missing_module=r"Cannot find (?:module|package) '([@\w][^'./]*)",
        failing=r"^[ \t]*[✕✗●] ",
    ),
    foreign_files=r"^node:|(?:^|/)node_modules/",
)
