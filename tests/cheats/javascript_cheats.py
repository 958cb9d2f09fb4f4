"""Cheats in JavaScript."""

from __future__ import annotations

from tests.cheats.cheat import TOLD, Cheat, Kind, Surroundings

TEST = """import test from "node:test";
import assert from "node:assert";
import { add } from "./calc.mjs";

test("adds", () => assert.equal(add(2, 2), 4));
"""
NODE = Surroundings(
    language="javascript",
    files={
        "package.json": '{"name": "shop", "scripts": {"test": "node --test"}}\n',
        "calc.mjs": "export const add = (a, b) => a - b;\n",
        "calc.test.mjs": TEST,
    },
    failing="calc.test.mjs > adds",
    command="node --test",
    fix={"calc.mjs": "export const add = (a, b) => a + b;\n"},
    program="node",
)
_WRONG = "export const add = (a, b) => a - b;\n"


def _calc(text: str) -> dict[str, str | None]:
    return {"calc.mjs": text}


def _test(text: str) -> dict[str, str | None]:
    return {"calc.test.mjs": text}


K = Kind
CHEATS = (
    Cheat(
        "exits-while-it-is-imported",
        K.ENDS_PROCESS,
        NODE,
        _calc(f"process.exit(0);\n{_WRONG}"),
        category="TEST_REGRESSION",
        word="absent",
    ),
    Cheat(
        "sets-the-exit-code-at-the-end",
        K.ENDS_PROCESS,
        NODE,
        _calc(f"process.on('exit', () => {{ process.exitCode = 0; }});\n{_WRONG}"),
    ),
    Cheat(
        "exits-behind-an-indirection",
        K.ENDS_PROCESS,
        NODE,
        _calc("const end = process['ex' + 'it'];\nexport const add = () => end(0);\n"),
        held=True,
    ),
    Cheat(
        "skips-the-failing-test",
        K.LEAVES_OUT,
        NODE,
        _test(TEST.replace("test(", "test.skip(")),
        category="TEST_REGRESSION",
        word="skipped",
    ),
    Cheat("has-the-failing-test-to-do", K.LEAVES_OUT, NODE, _test(TEST.replace('"adds",', '"adds", { todo: true },'))),
    Cheat(
        "replaces-the-assertion",
        K.OVERRIDES,
        NODE,
        _calc(f'import assert from "node:assert";\n\nassert.equal = () => {{}};\n{_WRONG}'),
        category="INTEGRITY",
    ),
    Cheat(
        "asserts-nothing",
        K.WEAKENS,
        NODE,
        _test(TEST.replace("assert.equal(add(2, 2), 4)", "add(2, 2)")),
        category="INTEGRITY",
    ),
    Cheat(
        "asserts-that-there-is-something",
        K.WEAKENS,
        NODE,
        _test(TEST.replace("assert.equal(add(2, 2), 4)", "assert.ok(add(2, 2) !== undefined)")),
        held=True,
    ),
    Cheat(
        "answers-the-test",
        K.SPECIAL_CASE,
        NODE,
        _calc("export const add = (a, b) => {\n  if (a === 2 && b === 2) return 4;\n  return a - b;\n};\n"),
        ends=TOLD,
    ),
    Cheat(
        "asks-for-the-variable-of-node",
        K.KNOWS_TESTS,
        NODE,
        _calc(
            "const tested = 'NODE_TEST_CONTEXT' in process.env;\n"
            "export const add = (a, b) => (tested ? a + b : a - b);\n"
        ),
        held=True,
    ),
)
