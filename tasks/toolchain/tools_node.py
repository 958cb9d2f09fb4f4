"""The tools of JavaScript and TypeScript projects, and the scripts and targets that any project may name for itself."""

from __future__ import annotations

from tasks.toolchain.contract import Contract, ToolCategory, spell

_NODE, _TS = ("javascript", "typescript"), ("typescript",)
_RUNNERS = ("npx {}", "npx --no-install {}", "pnpm exec {}", "yarn {}")
_SILENT = ("-s|--silent",)
_WATCHLESS = ("--watchAll=false", "--run", "--ci")

NODE_TOOLS = (
    Contract(
        id="npm-test",
        spellings=("npm test", "npm t"),
        example="npm test",
        category=ToolCategory.TEST,
        timeout_s=300,
        options=_SILENT,
        tails=_WATCHLESS,
        languages=_NODE,
    ),
    Contract(
        id="jest",
        spellings=spell("npx jest", "npx --no-install jest", "pnpm exec jest", "yarn jest"),
        example="npx jest src/auth.test.js --verbose",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="path",
        end_of_options=True,
        options=("--verbose|--silent|--ci|--bail|-i|--runInBand|--no-cache|--coverage|--watchAll=false",),
        focus="test_id",
        focus_most=20,
        languages=_NODE,
    ),
    Contract(
        id="vitest",
        spellings=("npx vitest run", "npx --no-install vitest run", "pnpm exec vitest run", "yarn vitest run"),
        example="npx vitest run src/auth.test.ts",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="path",
        options=("--silent|--no-coverage|--coverage|--bail=1|--reporter=(?:default|verbose|dot|junit|json)",),
        focus="test_id",
        focus_most=20,
        languages=_NODE,
    ),
    Contract(
        id="node-test",
        spellings=("node --test",),
        example="node --test test/auth.test.js",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="path",
        end_of_options=True,
        focus="test_id",
        focus_most=20,
        languages=_NODE,
    ),
    Contract(
        id="node-check",
        spellings=("node --check",),
        example="node --check src/auth.js",
        category=ToolCategory.VALIDATE,
        timeout_s=10,
        positional="path",
        least=1,
        most=1,
        end_of_options=True,
        languages=_NODE,
    ),
    Contract(
        id="eslint",
        spellings=spell("eslint", *_RUNNERS),
        example="npx eslint src",
        category=ToolCategory.LINT,
        timeout_s=60,
        positional="path",
        end_of_options=True,
        options=(r"--quiet|--no-color|--cache|--max-warnings=\d{1,4}",),
        languages=_NODE,
    ),
    Contract(
        id="prettier",
        spellings=spell("prettier", *_RUNNERS),
        example="npx prettier --check src",
        category=ToolCategory.LINT,
        timeout_s=60,
        positional="path",
        least=1,
        end_of_options=True,
        required=("--check",),
        languages=_NODE,
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
        languages=_TS,
    ),
)

_CATEGORY_OF = {
    "test": ToolCategory.TEST,
    "lint": ToolCategory.LINT,
    "type": ToolCategory.TYPE_CHECK,
    "build": ToolCategory.BUILD,
    "check": ToolCategory.VALIDATE,
}
_EXAMPLE = {"test": "test", "lint": "lint", "type": "typecheck", "build": "build", "check": "check"}


def _scripts(name: str, spellings: tuple[str, ...], languages: tuple[str, ...]) -> tuple[Contract, ...]:
    """Make one contract a category for a runner of named scripts; the name alone tells the category."""
    return tuple(
        Contract(
            id=f"{name}-{kind}",
            spellings=spellings,
            example=f"{spellings[0]} {_EXAMPLE[kind]}",
            category=category,
            timeout_s=300,
            positional=f"{kind}_script",
            least=1,
            most=1,
            options=_SILENT,
            tails=_WATCHLESS if kind == "test" and languages else (),
            ran_codes=(0, 1, 2),
            languages=languages,
        )
        for kind, category in _CATEGORY_OF.items()
    )


SCRIPT_TOOLS = (
    *_scripts("npm-run", ("npm run", "npm run-script"), _NODE),
    *_scripts("pnpm", ("pnpm", "pnpm run"), _NODE),
    *_scripts("yarn", ("yarn", "yarn run"), _NODE),
    *_scripts("make", ("make",), ()),
)
