"""The table by language: the forms of tests, assertions, skips and suppressions, and of deceptions of a runner.

Python's tests and sources are read from the syntax tree (`python_tests.py`, `python_sources.py`). Other languages are
read by these patterns, without comments and texts if these would mislead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# The author of a change may write a text for which a pattern takes long, so no pattern searches far from its beginning.
_C_TEXTS = r'//[^\n]*|/\*(?:.*?\*/|.*)|(?<!\\)"(?:\\.|[^"\\\n])*"'
_ANY_TEXTS = _C_TEXTS + r"|(?<!\\)'(?:\\.|[^'\\\n])*'|(?<!\\)`(?:\\.|[^`\\])*`"


@dataclass(frozen=True, slots=True)
class Suppression:
    """A comment that suppresses findings: `pattern` applies to its line, `wide` to the rest of the file."""

    kind: str
    pattern: re.Pattern[str]
    wide: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class TestSigns:
    """The form of tests in a language, as patterns.

    The match of `test` begins a test and names it in the group `name`. The test's block begins with the next `opening`
    after this match.
    """

    texts: re.Pattern[str]
    test: re.Pattern[str]
    opening: str
    assertion: re.Pattern[str]
    strong: re.Pattern[str]
    skip: re.Pattern[str]  # in the head of a test or its block
    only: re.Pattern[str] | None = None  # runs these tests and no others
    case: re.Pattern[str] | None = None  # a row of a table of cases
    exact: re.Pattern[str] | None = None  # a comparison that one value alone passes


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The signs of one language, as patterns.

    `evading` has a pattern for each kind of deception. It is a finding if a source matches one more often than before.
    """

    suffixes: tuple[str, ...]
    suppressions: tuple[Suppression, ...]
    tests: TestSigns | None = None  # None: read from the syntax tree
    evading: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    surroundings: re.Pattern[str] | None = None  # reads what started the program; with a word for tests it detects them
    overriding: re.Pattern[str] | None = None  # replaces assertions, also in a file of tests


def _suppression(kind: str, pattern: str, wide: str = "") -> Suppression:
    return Suppression(kind, re.compile(pattern), re.compile(wide, re.MULTILINE) if wide else None)


PYTHON = Signs(
    suffixes=(".py", ".pyi"),
    suppressions=(
        _suppression("noqa", r"#\s*noqa\b(?i:[: ]*[A-Z]*[0-9, A-Z]*)?", r"#\s*(?:ruff|flake8)\s*:\s*noqa"),
        _suppression(
            "type_ignore",
            r"#\s*(?:type|pyright|ty|pyre)\s*:\s*ignore(?:\[[^\]\n]*\])?",
            r"^[^\S\n]*#\s*(?:type\s*:\s*ignore\s*(?:#|$)|mypy\s*:\s*(?:ignore-errors|disable-error-code)|pyright\s*:\s*(?:basic|strict=false|report\w+=(?:false|none)))",
        ),
        _suppression(
            "pylint_disable",
            r"#\s*pylint\s*:\s*disable(?:-next)?\s*=[\w, -]*",
            r"^[^\S\n]*#\s*pylint\s*:\s*(?:disable\s*=|skip-file)",
        ),
        _suppression("no_cover", r"#\s*pragma\s*:\s*no\s*(?:cover|branch)"),
        _suppression("nosec", r"#\s*nosec\b[^\n]*"),
    ),
)
_NODE_RUN = r"(?:it|test|specify|describe|context|suite)"
NODE = Signs(
    suffixes=(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte"),
    suppressions=(
        _suppression(
            "eslint_disable",
            r"(?://|/\*)\s*(?:eslint-disable-(?:next-)?line|(?:biome|oxlint|tslint)[-:]\S+|prettier-ignore)[^\n*]*(?:\*/)?",
            r"/\*\s*eslint-disable(?!-)|/\*\s*eslint\s+[\w@/-]+\s*:\s*(?:[\"']?off|0)|//\s*(?:tslint:disable\b(?!-)|biome-ignore-all)",
        ),
        _suppression("ts_ignore", r"(?://|/\*)\s*@ts-ignore[^\n]*", r"//\s*@ts-nocheck"),
        _suppression("ts_expect_error", r"(?://|/\*)\s*@ts-expect-error[^\n]*"),
        _suppression("no_cover", r"/\*\s*(?:istanbul|c8|v8)\s+ignore\b[^*]*\*/"),
        _suppression("as_any", r"\bas\s+any\b"),
    ),
    tests=TestSigns(
        texts=re.compile(_ANY_TEXTS, re.DOTALL),
        test=re.compile(
            r"(?<![\w.$])(?:[xf]?(?:it|test|specify)|(?:t|tap|tape)\.test)(?:\.(?!each\b)\w+)*(?:\.each\s*(?:\([^()]*\)|`[^`]*`))?"
            r"\s*\(\s*(?P<name>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:\\.|[^`\\])*`|\w+)"
        ),
        opening="(",
        assertion=re.compile(
            r"\bexpect(?:Type[Oo]f)?\s{0,20}(?:<[^<>()]{0,200}>)?\s{0,20}\(|\bassert\w{0,60}\s{0,20}(?:\.\s{0,20}\w{1,60}\s{0,20}){0,5}(?:<[^<>()]{0,200}>)?\(|\.should\b|\bshould\s*\("
            r"|(?<![\w.])t\.(?:is|not|ok|notOk|equal\w*|notEqual\w*|same\w*|deepEqual\w*|strictEqual\w*|strictSame\w*|match\w*|throws\w*|rejects\w*|true|false|truthy|falsy|like|regex|has|fail|assert)\s*\("
        ),
        strong=re.compile(
            r"\.(?:to|deep|not|be|with)*\.?(?:toBe|toEqual|toStrictEqual|toMatchObject|toHaveLength|toThrow\w*|toMatch\w*|toContain\w*|toHave\w+|equal\w*|eql?|deepEqual\w*|strictEqual\w*|deepStrictEqual|strictSame|same|is|throws\w*|rejects|match)\s*\((?!\s*expect\.anything\b)"
            r"|\bassert(?:Match|Equal|Same|Deep|Strict|Includes|Throws)\w*\s*(?:<[^<>()]*>)?\("
        ),
        skip=re.compile(
            rf"(?<![\w.$])(?:{_NODE_RUN}(?:\.concurrent|\.sequential)?\.(?:skip|todo|fails|failing|skipIf|fixme)\b|x(?:it|test|specify|describe|context)\s*\()"
            r"|\b(?:this|t|ctx|context|test)\.(?:skip|todo)\s*\(|\{\s*(?:skip|todo)\s*:\s*(?!false)"
        ),
        only=re.compile(rf"(?<![\w.$])(?:{_NODE_RUN}\.only\b|f(?:it|describe)\s*\()|\{{\s*only\s*:\s*true"),
        exact=re.compile(
            r"(?<!\.not)\.(?:toBe|toEqual|toStrictEqual|equals?|eql?|deepEqual|strictEqual|deepStrictEqual|is|same|strictSame)"
            r"\s*\((?!\s*(?:expect\.any|typeof\b))"
        ),
    ),
    evading=MappingProxyType(
        {
            "process_ended": re.compile(r"\bprocess\.(?:exit|abort|kill|reallyExit)\s*\(|\bprocess\.exitCode\s*="),
            "exit_hooked": re.compile(r"\bprocess\.(?:on|once)\(\s*['\"](?:exit|beforeExit)['\"]"),
            "tests_detected": re.compile(
                r"\b(?:JEST_WORKER_ID|npm_lifecycle_event|VITEST(?:_\w+)?|NODE_TEST_CONTEXT|MOCHA_\w+)\b|NODE_ENV\s*\]?\s*[!=]==?\s*['\"]test['\"]"
                r"|typeof\s+(?:jest|vi|mocha|describe|it|test|expect)\b|process\.argv\b[^\n]{0,200}(?:jest|mocha|vitest|--test|['\"`]test)"
            ),
            "outcome_overridden": re.compile(
                r"\b(?:globalThis|global|window)\.(?:expect|it|test|describe|assert)\s*=(?!=)"
                r"|\bassert(?:\.\w{1,60}|\[[^\]\n]{1,100}\]){1,5}\s{0,20}=(?!=)"
            ),
            "always_equal": re.compile(
                r"\bequals\s*\([^()]*\)\s*(?::\s*\w+\s*)?\{\s*return\s+true\s{0,20};?\s{0,20}\}|\basymmetricMatch\b"
            ),
        }
    ),
    surroundings=re.compile(
        r"\.stack\b|\bcaptureStackTrace\b|\bprocess\.(?:execArgv|title)\b|\brequire\.main\b|\bimport\.meta\.main\b"
    ),
    overriding=re.compile(
        r"\b(?:Object\.(?:assign|definePropert(?:y|ies))|Reflect\.set|(?:mock|sinon)\.(?:method|stub|replace))\s*\(\s*(?:assert|expect)\b"
        r"|\bexpect\.extend\s*\(\s*\{[^{}]*\b(?:toBe|toEqual|toStrictEqual|toThrow|toMatch|toContain|toHaveLength)\s*[:(]"
    ),
)
GO = Signs(
    suffixes=(".go",),
    suppressions=(
        _suppression(
            "nolint", r"//\s*(?:nolint\b[^\n]*|lint:(?:file-)?ignore\b[^\n]*|#nosec\b[^\n]*|revive:disable\S*)"
        ),
    ),
    tests=TestSigns(
        texts=re.compile(_ANY_TEXTS, re.DOTALL),
        test=re.compile(r"^func\s+(?:\([^()]*\)\s*)?(?P<name>(?:Test|Fuzz|Example)\w*)\s*(?=\()", re.MULTILINE),
        opening="{",
        assertion=re.compile(
            r"\b(?:t|tb|b|c|s\.T\(\))\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:assert|require|is|qt|g|s|suite)\.[A-Z]\w*\s*\(|\bExpect\s*\("
        ),
        strong=re.compile(
            r"\b(?:assert|require|s|suite|is)\.(?:\w{0,40}Equal\w{0,40}|Same|Len|ErrorIs|ErrorAs|JSONEq|ElementsMatch|Panics\w*)\s*\(|\b(?:t|tb)\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\("
        ),
        skip=re.compile(r"\b(?:t|tb|b|s\.T\(\))\.(?:Skip|Skipf|SkipNow)\s*\("),
        case=re.compile(
            r"^[ \t]*(?:\"(?:\\.|[^\"\\\n])*\"[ \t]*:[ \t]*)?\{[^\n]*\},?[ \t]*(?://[^\n]*)?$", re.MULTILINE
        ),
        exact=re.compile(
            r"!=|\.(?:Equal\w*|DeepEqual|Exactly|JSONEq|Same|ElementsMatch|ErrorIs)\s*\(|\bcmp\.(?:Diff|Equal)\s*\("
        ),
    ),
    evading=MappingProxyType(
        {
            "process_ended": re.compile(r"\b(?:os|syscall)\.Exit\s*\("),
            "tests_detected": re.compile(
                r"\btesting\.Testing\s*\(|\bflag\.Lookup\(\s*\"test\.|os\.Args\[0\][^\n]{0,200}test|\"\.test\"|\btesting\.(?:CoverMode|Verbose|Short)\s*\("
            ),
            "always_equal": re.compile(r"\bfunc\s*\([^()]*\)\s*Equals?\([^()]*\)\s*bool\s*\{\s*return\s+true\s*\}"),
        }
    ),
    surroundings=re.compile(r"\bruntime\.Callers?\s*\(|\bdebug\.(?:Stack|PrintStack)\s*\(|\bos\.Executable\s*\("),
)
RUST = Signs(
    suffixes=(".rs",),
    suppressions=(
        _suppression(
            "allow",
            r"#\[\s*(?:cfg_attr\([^\]]{0,200}?\b)?(?:allow|expect)\s*\([^\]]{0,400}\]",
            r"#!\[\s*(?:cfg_attr\([^\]]{0,200}?\b)?allow\s*\(",
        ),
        _suppression(
            "no_cover",
            r"#\[\s*(?:cfg_attr\([^\]]{0,200}?)?(?:coverage\(off\)|no_coverage)|//\s*(?:LCOV_EXCL|GRCOV_EXCL)\w*",
        ),
    ),
    tests=TestSigns(
        texts=re.compile(_C_TEXTS + r"|'(?:\\.|[^'\\\n])'|r#*\".*?\"#*", re.DOTALL),
        test=re.compile(
            r"#\[\s*(?:\w+::){0,5}(?:test|rstest|test_case|quickcheck|proptest)\b[^\]]{0,400}\](?P<head>(?:\s{0,200}(?:#\[[^\]]{0,400}\]|//[^\n]*+)){0,20})\s{0,200}(?:pub(?:\([^)]{0,100}\))?\s+)?(?:async\s+)?fn\s+(?P<name>\w+)"
        ),
        opening="{",
        assertion=re.compile(
            r"\b(?:\w{0,40}assert\w{0,40}|panic|unreachable|matches|check|verify)!\s*[({\[]|\.(?:unwrap_err|expect_err)\s*\("
        ),
        strong=re.compile(
            r"\b(?:\w{0,40}assert_(?:eq|ne|matches)\w{0,40}|panic|unreachable|assert_snapshot)!\s*[({\[]|\.(?:unwrap_err|expect_err)\s*\("
        ),
        skip=re.compile(r"#\[\s*(?:ignore|should_panic|cfg\s*\((?!\s*test\s*\)))[^\]]{0,400}\]"),
        exact=re.compile(r"assert_(?:eq|matches)\w{0,40}!|=="),
    ),
    evading=MappingProxyType(
        {
            "process_ended": re.compile(r"\bprocess::(?:exit|abort)\s*\(|\blibc::_?exit\s*\("),
            "exit_hooked": re.compile(r"\b(?:libc::)?atexit\s*\(|\bpanic::set_hook\s*\("),
            "tests_detected": re.compile(
                r"\bcfg!\s*\(\s*(?:not\s*\(\s*)?test\b|#\[\s*cfg\s*\(\s*not\s*\(\s*test\s*\)|RUST_TEST_\w+|NEXTEST\w*|thread::current\(\)\.name\(\)|current_exe\s*\(\)[^;\n]{0,200}(?:test|deps)"
            ),
            "always_equal": re.compile(
                r"\bimpl\b[^{};]{0,200}?\bPartialEq\s*<[^{};]{0,200}\{[^{}]{0,200}?\bfn\s+eq\b[^{}]{0,200}"
                r"\{(?!\s*(?:return\s+)?false\s{0,20};?\s{0,20}\})(?:(?!\bself\b)[^{}]){0,400}\}"
            ),
            "outcome_overridden": re.compile(r"\bmacro_rules!\s*(?:debug_)?(?:assert|assert_eq|assert_ne|panic)\b"),
        }
    ),
    surroundings=re.compile(r"\benv::(?:args|args_os|current_exe)\s*\(|\bBacktrace::\w+\s*\(|\bLocation::caller\s*\("),
)
CPP = Signs(
    suffixes=(".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    suppressions=(
        _suppression("nolint", r"//\s*NOLINT\w*[^\n]*|//\s*cppcheck-suppress[^\n]*", r"NOLINTBEGIN"),
        _suppression(
            "allow",
            r"\[\[\s*maybe_unused\s*\]\]",
            r"#\s*pragma\s+(?:GCC|clang)\s+diagnostic\s+ignored|#\s*pragma\s+warning\s*\(\s*disable",
        ),
        _suppression("no_cover", r"//\s*(?:LCOV|GCOV|GCOVR)_EXCL\w*"),
    ),
    tests=TestSigns(
        texts=re.compile(_C_TEXTS + r"|(?<!\\)'(?:\\.|[^'\\\n])+'", re.DOTALL),
        test=re.compile(
            r"^[ \t]*(?:TYPED_)?(?:TEST(?:_[FP])?|TEST_CASE(?:_METHOD)?|SCENARIO|BOOST_AUTO_TEST_CASE)\s*"
            r"\((?P<name>[^()\n]*)\)",
            re.MULTILINE,
        ),
        opening="{",
        assertion=re.compile(
            r"\b(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST_(?:CHECK|TEST|REQUIRE))\w*\s*\(|\bassert\s*\(|\bFAIL\s*\("
        ),
        strong=re.compile(
            r"\b(?:EXPECT|ASSERT)_(?:\w{0,40}EQ|NE|LT|LE|GT|GE|THROW|NEAR|THAT|DEATH)\w{0,40}\s*\(|\b(?:REQUIRE|CHECK)\w*\s*\([^;\n]{0,200}(?:==|!=|<|>)|\bREQUIRE_THROWS\w*\s*\(|\bassert\s*\([^;\n]{0,200}=="
        ),
        skip=re.compile(r"\bGTEST_SKIP\s*\(|\bDISABLED_\w+|\[\.\w*\]|\[!(?:mayfail|shouldfail)\]|\bSKIP\s*\("),
        exact=re.compile(r"_(?:STR)?EQ\s*\(|=="),
    ),
    evading=MappingProxyType(
        {
            "process_ended": re.compile(r"(?<![\w.>])(?:std::)?(?:_exit|_Exit|quick_exit|exit|abort)\s*\("),
            "exit_hooked": re.compile(r"(?<![\w.>])(?:std::)?(?:atexit|at_quick_exit)\s*\("),
            "tests_detected": re.compile(r"\bGTEST_\w+|\bUnitTest::GetInstance"),
            "always_equal": re.compile(
                r"\boperator\s*==\s*\([^()]*\)\s*(?:const\s*)?(?:noexcept\s*)?\{\s*return\s+true\s*;"
            ),
        }
    ),
    surroundings=re.compile(r"\bbacktrace\s*\(|\bprogram_invocation_(?:short_)?name\b"),
)
TABLE: tuple[Signs, ...] = (PYTHON, NODE, GO, RUST, CPP)
_BY_SUFFIX: Mapping[str, Signs] = MappingProxyType({suffix: signs for signs in TABLE for suffix in signs.suffixes})


def signs_of(path: str) -> Signs | None:
    """Return the row for the language of a file, found by its extension; None if there is none."""
    name = path.rpartition("/")[2]
    return _BY_SUFFIX.get(name[name.rfind(".") :].lower()) if "." in name else None
