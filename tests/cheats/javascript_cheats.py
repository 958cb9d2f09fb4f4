"""Cheats in JavaScript."""

from __future__ import annotations

from tests.cheats.cheat import Cheat, Surroundings

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

CHEATS = (
    Cheat(
        "exits-while-it-is-imported",
        NODE,
        {"calc.mjs": "process.exit(0);\nexport const add = (a, b) => a - b;\n"},
        category="TEST_REGRESSION",
        word="absent",
    ),
    Cheat(
        "skips-the-failing-test",
        NODE,
        {"calc.test.mjs": TEST.replace("test(", "test.skip(")},
        category="TEST_REGRESSION",
        word="skipped",
    ),
)
