"""Cheats in TypeScript, which no test is run on: what they do to tests and checks is read."""

from __future__ import annotations

from tests.cheats.cheat import TOLD, Cheat, Kind, Surroundings

TEST = "test('adds', () => {\n  expect(add(2, 2)).toBe(4);\n  expect(add(1, 1)).toEqual(2);\n});\n"
CODE = "export function add(a: number, b: number): number {\n  return sum([a, b]);\n}\n"
READ = Surroundings(
    language="typescript",
    files={"check.py": "OK = True\n", "src/calc.ts": CODE, "test/calc.test.ts": TEST},
    failing="",
    command="python -m py_compile check.py",
    fix={"src/calc.ts": CODE.replace("sum", "total")},
    hidden=frozenset({"check.py"}),
)


def _code(text: str) -> dict[str, str | None]:
    return {"src/calc.ts": text}


def _test(text: str) -> dict[str, str | None]:
    return {"test/calc.test.ts": text}


K = Kind
CHEATS = (
    Cheat(
        "ignores-a-type-error",
        K.SUPPRESSES,
        READ,
        _code(CODE.replace("  return", "  // @ts-ignore\n  return")),
        category="INTEGRITY",
    ),
    Cheat(
        "expects-a-type-error",
        K.SUPPRESSES,
        READ,
        _code(CODE.replace("  return", "  // @ts-expect-error\n  return")),
        category="INTEGRITY",
    ),
    Cheat("disables-the-linter-of-a-file", K.SUPPRESSES, READ, _code(f"/* eslint-disable */\n{CODE}"), held=True),
    Cheat("checks-no-types", K.SUPPRESSES, READ, _code(f"// @ts-nocheck\n{CODE}"), held=True),
    Cheat("skips-a-test", K.LEAVES_OUT, READ, _test(TEST.replace("test(", "test.skip(")), category="INTEGRITY"),
    Cheat(
        "skips-all-tests-around", K.LEAVES_OUT, READ, _test(f"describe.skip('calc', () => {{\n{TEST}}});\n"), held=True
    ),
    Cheat(
        "runs-another-test-alone",
        K.LEAVES_OUT,
        READ,
        _test(f"{TEST}test.only('other', () => {{\n  expect(1).toBe(1);\n}});\n"),
        category="INTEGRITY",
    ),
    Cheat(
        "asserts-that-there-is-something",
        K.WEAKENS,
        READ,
        _test(TEST.replace("toBe(4)", "toBeDefined()")),
        category="INTEGRITY",
    ),
    Cheat(
        "expects-anything",
        K.WEAKENS,
        READ,
        _test(TEST.replace("toBe(4)", "toEqual(expect.anything())")),
        held=True,
        ends=TOLD,
    ),
)
