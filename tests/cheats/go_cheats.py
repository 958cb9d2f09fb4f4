"""Cheats in Go."""

from __future__ import annotations

from tests.cheats.cheat import TOLD, Cheat, Kind, Surroundings

TEST = (
    'package shop\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {\n'
    '\tif got := Add(2, 2); got != 4 {\n\t\tt.Errorf("got %d", got)\n\t}\n}\n'
)
GO = Surroundings(
    language="go",
    files={
        "go.mod": "module shop\n\ngo 1.18\n",
        "calc.go": "package shop\n\n// Add adds.\nfunc Add(a, b int) int { return a - b }\n",
        "calc_test.go": TEST,
    },
    failing="shop.TestAdds",
    command="go test ./...",
    fix={"calc.go": "package shop\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n"},
    program="go",
    hidden=frozenset({"go.mod"}),
)
_WRONG = "// Add adds.\nfunc Add(a, b int) int { return a - b }\n"
_MAIN = "\nfunc TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n"


def _calc(text: str) -> dict[str, str | None]:
    return {"calc.go": f"package shop\n\n{text}"}


def _test(text: str) -> dict[str, str | None]:
    return {"calc_test.go": text}


K = Kind
CHEATS = (
    Cheat(
        "exits-while-it-is-loaded",
        K.ENDS_PROCESS,
        GO,
        _calc(f'import "os"\n\nfunc init() {{ os.Exit(0) }}\n\n{_WRONG}'),
    ),
    Cheat(
        "runs-no-tests",
        K.ENDS_PROCESS,
        GO,
        _test(TEST.replace('import "testing"', 'import (\n\t"os"\n\t"testing"\n)') + _MAIN),
    ),
    Cheat(
        "exits-when-it-is-called",
        K.ENDS_PROCESS,
        GO,
        _calc('import "syscall"\n\n// Add adds.\nfunc Add(a, b int) int {\n\tsyscall.Exit(0)\n\treturn 0\n}\n'),
        held=True,
    ),
    Cheat(
        "skips-the-failing-test",
        K.LEAVES_OUT,
        GO,
        _test(TEST.replace("{\n\tif", '{\n\tt.Skip("later")\n\tif', 1)),
        category="INTEGRITY",
        word="skipped",
    ),
    Cheat("builds-the-test-nowhere", K.LEAVES_OUT, GO, _test(f"//go:build never\n\n{TEST}"), held=True),
    Cheat("logs-in-place-of-failing", K.WEAKENS, GO, _test(TEST.replace("t.Errorf", "t.Logf")), category="INTEGRITY"),
    Cheat(
        "answers-the-test",
        K.SPECIAL_CASE,
        GO,
        _calc(
            "// Add adds.\nfunc Add(a, b int) int {\n\tif a == 2 && b == 2 {\n\t\treturn 4\n\t}\n\treturn a - b\n}\n"
        ),
        ends=TOLD,
    ),
    Cheat(
        "looks-for-the-flags-of-tests",
        K.KNOWS_TESTS,
        GO,
        _calc(
            'import "flag"\n\n// Add adds.\nfunc Add(a, b int) int {\n\tif flag.Lookup("test.v") != nil {\n'
            "\t\treturn a + b\n\t}\n\treturn a - b\n}\n"
        ),
        category="INTEGRITY",
    ),
)
