"""Python: pytest, unittest, ruff, mypy, pyright and pip, and their output."""

from __future__ import annotations

from functools import partial

from schemas.base import RiskLevel
from tasks.toolchain.collecting import COLLECTING
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.contract import Contract, Part, ToolCategory, linter, path_tool, spell, test_runner
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
from tasks.toolchain.python_output import MYPY, PIP, PYRIGHT, PYTEST, PYTHON, RUFF, RUN, UNITTEST

_PY = (".py",)
_RUNNERS = ("python -m {}", "python3 -m {}", "uv run {}", "poetry run {}")
_PYTEST_OPTIONS = (
    r"-[vqxsl]{1,4}",
    "--verbose|--quiet|--exitfirst|--showlocals|--strict-markers|--strict-config|--disable-warnings",
    "--no-header|--no-summary|--no-cov|--full-trace",
    "--tb=(?:auto|long|short|line|native|no)",
    r"--(?:maxfail|durations)=\d{1,3}",
    r"-r[a-zA-Z]{1,5}",
    "--color=(?:yes|no|auto)",
)
_RUFF_OPTIONS = (
    "-q|--quiet|-v|--verbose|-n|--no-cache|--no-fix|--show-fixes|--preview",
    "--output-format=(?:concise|full|github|gitlab|grouped|json|json-lines|junit|pylint)",
)
_MYPY_OPTIONS = (
    "--strict|--ignore-missing-imports|--pretty|--no-error-summary|--show-error-codes|--no-incremental",
    "--check-untyped-defs|--explicit-package-bases|--namespace-packages|--follow-imports=silent",
)
_PYTEST = spell("pytest", *_RUNNERS)
_UNITTEST_OPTIONS = ("-v|--verbose|-q|--quiet|-f|--failfast|-b|--buffer",)
_test_modules = partial(
    Contract, category=ToolCategory.TEST, timeout_s=300, positional="module", focus="test_id", focus_most=20,
    focus_is_module=True,
)  # fmt: skip


def _no_module(name: str) -> tuple[str, ...]:
    """Return the messages of Python and its runners about a tool that is not installed."""
    return f"No module named {name}", f"command not found: {name}"


_NO_PYTEST = (*_no_module("pytest"), "file or directory not found")


_TOOLS = (
    test_runner(
        id="pytest-focused",
        spellings=_PYTEST,
        example="pytest tests/test_auth.py -x -v --tb=short",
        timeout_s=60,
        positional="test",
        least=1,
        options=_PYTEST_OPTIONS,
        valued=(("-n", "count"),),
        required=("-x",),
        cannot_run=_NO_PYTEST,
        reports=True,
    ),
    test_runner(
        id="pytest",
        spellings=_PYTEST,
        example="pytest tests/test_auth.py -v",
        timeout_s=300,
        positional="test",
        options=_PYTEST_OPTIONS,
        valued=(("-n", "count"),),
        cannot_run=_NO_PYTEST,
        reports=True,
    ),
    Contract(
        id=COLLECTS,
        spellings=_PYTEST,
        example="pytest --collect-only -q tests/test_auth.py",
        category=ToolCategory.VALIDATE,
        timeout_s=60,
        positional="path",
        least=1,
        options=_PYTEST_OPTIONS,
        required=(COLLECTING,),
        end_of_options=True,
        ran_codes=(0, 2),
        cannot_run=_NO_PYTEST,
    ),
    Contract(
        id="unittest-discover",
        spellings=("python -m unittest discover", "python3 -m unittest discover"),
        example="python -m unittest discover -s tests",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="module",
        options=_UNITTEST_OPTIONS,
        valued=(("-s", "path"), ("-t", "path")),
        ran_codes=(0, 1, 5),
        cannot_run=("Start directory is not importable",),
        reports=True,
    ),
    _test_modules(
        id="unittest",
        spellings=("python -m unittest", "python3 -m unittest"),
        example="python -m unittest -v",
        options=_UNITTEST_OPTIONS,
        valued=(("-s", "path"), ("-t", "path")),
        ran_codes=(0, 1, 5),
    ),
    _test_modules(
        id="django",
        spellings=("python manage.py test", "python3 manage.py test"),
        example="python manage.py test shop.tests",
        options=("--failfast|--keepdb|--noinput|--no-input|--parallel|--verbosity=[0-3]",),
        cannot_run=("can't open file", "No module named 'django'"),
    ),
    Contract(
        id="nox",
        spellings=("nox", "python -m nox"),
        example="nox -s tests",
        category=ToolCategory.TEST,
        timeout_s=600,
        options=("-r|-R|--reuse-existing-virtualenvs|--no-error-on-missing-interpreters",),
        valued=(("-s", "environment"),),
    ),
    Contract(
        id="tox",
        spellings=("tox run", "tox", "python -m tox"),
        example="tox -q",
        category=ToolCategory.TEST,
        timeout_s=600,
        options=("-q|--quiet|-v|--verbose",),
        valued=(("-e", "environment"),),
        cannot_run=_no_module("tox"),
    ),
    linter(
        id="ruff-fix",
        spellings=spell("ruff check", *_RUNNERS),
        example="ruff check src/auth.py --fix",
        timeout_s=30,
        least=1,
        options=_RUFF_OPTIONS,
        required=("--fix",),
        min_risk=RiskLevel.MED,
        cannot_run=_no_module("ruff"),
    ),
    linter(
        id="ruff-check",
        spellings=spell("ruff check", *_RUNNERS),
        example="ruff check src/auth.py",
        timeout_s=30,
        options=_RUFF_OPTIONS,
        cannot_run=_no_module("ruff"),
    ),
    linter(
        id="ruff-format",
        spellings=spell("ruff format", *_RUNNERS),
        example="ruff format --check src/auth.py",
        timeout_s=30,
        options=("-q|--quiet|--diff|--preview|--no-cache|-n",),
        required=("--check",),
        cannot_run=_no_module("ruff"),
    ),
    linter(
        id="black",
        spellings=spell("black", *_RUNNERS),
        example="black --check src/auth.py",
        timeout_s=60,
        least=1,
        options=("-q|--quiet|--diff",),
        required=("--check",),
        cannot_run=_no_module("black"),
    ),
    linter(
        id="flake8",
        spellings=spell("flake8", *_RUNNERS),
        example="flake8 src",
        timeout_s=60,
        options=("-q|--quiet|--count|--statistics|--show-source",),
        cannot_run=_no_module("flake8"),
    ),
    path_tool(
        id="mypy",
        spellings=spell("mypy", *_RUNNERS),
        example="mypy src --ignore-missing-imports",
        category=ToolCategory.TYPE_CHECK,
        timeout_s=120,
        options=_MYPY_OPTIONS,
        cannot_run=_no_module("mypy"),
    ),
    Contract(
        id="pyright",
        spellings=spell("pyright", *_RUNNERS, "npx {}"),
        example="pyright src",
        category=ToolCategory.TYPE_CHECK,
        timeout_s=60,
        positional="path",
        options=("--warnings|--stats|--outputjson",),
        strict_by="--project",
        cannot_run=_no_module("pyright"),
    ),
    Contract(
        id="py-compile",
        spellings=("python -m py_compile", "python3 -m py_compile"),
        example="python -m py_compile src/auth.py",
        category=ToolCategory.VALIDATE,
        timeout_s=10,
        positional="path",
        least=1,
    ),
    path_tool(
        id="compileall",
        spellings=("python -m compileall", "python3 -m compileall"),
        example="python -m compileall -q src",
        category=ToolCategory.BUILD,
        timeout_s=60,
        least=1,
        options=("-q{1,2}|-f",),
    ),
    Contract(
        id="pip-check",
        spellings=("python -m pip check", "python3 -m pip check", "pip check", "uv pip check"),
        example="python -m pip check",
        category=ToolCategory.VALIDATE,
        timeout_s=60,
        cannot_run=_no_module("pip"),
    ),
)

_COMPILE = Part("python -m py_compile", _PY)
_RUFF = Part("ruff check", _PY, "ruff check .")
_MYPY = Part("mypy", _PY, "mypy .")
_TESTS = Part("pytest -q")

_RUFF_CHECK = QuickCheck(
    "ruff", Part("ruff check", _PY), ("ruff.toml", ".ruff.toml"), ("pyproject.toml",), r"(?m)^\s*\[tool\.ruff[.\]]"
)
_MYPY_CHECK = QuickCheck(
    "mypy",
    Part("mypy --follow-imports=silent", _PY),  # findings in other files do not count
    ("mypy.ini", ".mypy.ini"),
    ("pyproject.toml", "setup.cfg"),
    r"(?m)^\s*\[(?:tool\.)?mypy[.\]]",
    about=TYPING,
)
_PYRIGHT_CHECK = QuickCheck(
    "pyright",
    Part("pyright", _PY),
    ("pyrightconfig.json",),
    ("pyproject.toml",),
    r"(?m)^\s*\[tool\.pyright\]",
    about=TYPING,
)

_DECLARING = (
    *("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "noxfile.py", "Pipfile"),
    *("requirements.txt", "requirements-dev.txt"),
)
_UNITTEST_SIGN = (
    r"-m unittest\b(?: discover(?: -[vqfb]{1,4}){0,4}(?: (?:-s[ =]|--start-directory[ =])?(?P<place>\w+))?)?"
)
_TEST_RUNNERS = (
    ConfiguredRunner(
        "pytest -q",
        files=("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"),
        within=_DECLARING,
        sign=r"\bpytest\b",
    ),
    ConfiguredRunner(
        "python manage.py test", files=("manage.py",), within=_DECLARING, sign=r"(?i)\bdjango\b", both=True
    ),
    ConfiguredRunner("python -m unittest discover -s {place}", within=_DECLARING, sign=_UNITTEST_SIGN),
    ConfiguredRunner("python -m unittest", within=_DECLARING, sign=_UNITTEST_SIGN),  # which can run one test
    ConfiguredRunner(
        "tox -q",
        files=("tox.toml",),
        within=("tox.ini", "pyproject.toml"),
        sign=r"(?m)^\[(?:testenv\b|tox\]|tool\.tox\b)",
    ),
    # The session that runs tests: a bare `nox` would also run one that releases.
    ConfiguredRunner("nox -s {place}", within=("noxfile.py",), sign=r"(?m)^def (?P<place>tests?)\("),
)

# A section ends where a line begins with `[`, a value where a line begins with a name.
_MEASURES = r"(?m)^[ \t]*addopts[ \t]*=(?:[^\n]*\n(?!\[|[\w.-]+[ \t]*=)){0,40}?[^\n]*--cov\b"
_WHOLE_COVERAGE = PartOption(
    "--no-cov",
    ("pytest", "pytest-focused", COLLECTS),
    ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    _MEASURES,
)

_RECIPES = {
    "python-quick": (_COMPILE, _RUFF),
    "python-full": (_COMPILE, _RUFF, _MYPY, _TESTS),
    "python-test-only": (_TESTS,),
    "python-focused-test": (Part("pytest -x -v --tb=short", _PY, "pytest -x -v --tb=short", tests=True),),
}

_CHECKS = {
    "python-syntax": (_COMPILE,),
}

_OF_PROJECT = r"(?m)^\s*\[(?:project|build-system|dependency-groups|tool\.(?:poetry|pdm|hatch|flit|uv|pytest))"

_LANGUAGE = Language(
    name="python",
    aliases=("py", "python3"),
    suffixes=(".py", ".pyi"),
    manifests=(
        *("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "requirements-dev.txt", "Pipfile"),
        *("Pipfile.lock", "poetry.lock", "uv.lock", "tox.ini", "noxfile.py"),
    ),
    quick="python-syntax",
    build="python-syntax",
    test="python-test-only",
    types=(_MYPY,),
    fix=(Part("ruff check --fix", _PY),),
    dependencies=(Part("python -m pip check"),),
    locked_dependencies=(("uv.lock", (Part("uv pip check"),)), ("poetry.lock", ()), ("pdm.lock", ())),  # without pip
    quick_checks=((_RUFF_CHECK,), (_MYPY_CHECK, _PYRIGHT_CHECK)),
    projects=(("pyproject.toml", _OF_PROJECT), ("setup.py", ""), ("Pipfile", "")),
)

TOOLCHAIN = Toolchain(
    languages=(_LANGUAGE,),
    tools=_TOOLS,
    recipes=_RECIPES,
    checks=_CHECKS,
    runners=_TEST_RUNNERS,
    part_options=(_WHOLE_COVERAGE,),
    configuration=(
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "setup.cfg",
        "setup.py",
        "tox.ini",
        "tox.toml",
        "noxfile.py",
        "pyproject.toml",
        "requirements*.txt",
        "Pipfile",
        "mypy.ini",
        ".mypy.ini",
        "pyrightconfig.json",
        "ruff.toml",
        ".ruff.toml",
        ".flake8",
        ".coveragerc",
        "*.pth",
        "sitecustomize.py",
        "usercustomize.py",
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
    ),
    output={
        "pytest": PYTEST + RUN,
        "unittest": RUN,
        "django": RUN,
        "py": PYTHON,
        "compileall": PYTHON,
        "mypy": MYPY + PYTHON,
        "pyright": PYRIGHT,
        "ruff": RUFF,
        "black": RUFF,
        "flake8": RUFF,
    },
    ranked={
        Rank.RUNNER: PYTEST + UNITTEST,
        Rank.CHECK: MYPY + PYRIGHT + RUFF,
        Rank.INSTALLER: PIP,
        Rank.RUNTIME: PYTHON,
    },
    signs=LogSigns(
        dependency=r"\bResolutionImpossible\b|\bVersionConflict\b|\bresolution-too-deep\b|conflicting dependencies"
        r"|no matching distribution found|could not find a version that satisfies|no solution found when resolving",
        missing_module=r"No module named ['\"]?([A-Za-z_]\w*)",
        failing=r"^E   |\bTraceback \(most recent call last\)",
    ),
    foreign_files=r"^<|(?:^|/)(?:site-packages|lib/python[\d.]*)/",
    test_names=r"(?:test_.*|conftest)\.py",
)
