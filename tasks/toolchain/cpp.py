"""C and C++: cmake and ctest, and the output of these, of gcc, clang, ld and googletest."""

from __future__ import annotations

from tasks.toolchain.contract import Contract, Part, ToolCategory
from tasks.toolchain.language import (
    AT,
    COMPILE,
    FILE,
    IMPORT,
    LINT,
    REGRESSION,
    TIMEOUT,
    Language,
    LogSigns,
    OutputParser,
    OutputRule,
    Rank,
    Toolchain,
)

_TOOLS = (
    Contract(
        id="cmake-configure",
        spellings=("cmake",),
        example="cmake -S . -B build",
        category=ToolCategory.BUILD,
        timeout_s=120,
        valued=(("-S", "path"), ("-B", "path")),
        required=("-S", "-B"),
    ),
    Contract(
        id="cmake-build",
        spellings=("cmake --build",),
        example="cmake --build build",
        category=ToolCategory.BUILD,
        timeout_s=300,
        positional="path",
        least=1,
        most=1,
        options=(r"-j\d{0,2}|--parallel|-v|--verbose",),
        ran_codes=(0, 1, 2),
        cannot_run=("is not a directory", "could not load cache", "could not find CMAKE_PROJECT_NAME"),
    ),
    Contract(
        id="ctest",
        spellings=("ctest",),
        example="ctest --test-dir build --output-on-failure",
        category=ToolCategory.TEST,
        timeout_s=300,
        options=(r"--output-on-failure|--stop-on-failure|-V|--verbose|-Q|--quiet|-j\d{0,2}",),
        valued=(("--test-dir", "path"),),
        ran_codes=(0, 8),
        cannot_run=("No tests were found", "No test configuration file found"),
    ),
)

_BUILD = Part("cmake --build build")

_CHECKS = {
    "cpp-build": (_BUILD,),
    "cpp-full": (_BUILD, Part("ctest --test-dir build --output-on-failure")),
}

_LANGUAGE = Language(
    name="cpp",
    aliases=("c++", "cc", "cxx", "c"),
    suffixes=(".cpp", ".cc", ".cxx", ".c", ".hpp", ".hh", ".hxx", ".h"),
    manifests=("CMakeLists.txt", "conanfile.txt", "vcpkg.json"),
    quick="cpp-build",
    build="cpp-build",
    test="cpp-full",
    types=(_BUILD,),
    dependencies=(Part("cmake -S . -B build"),),
)

_LD = r"(?:\S{0,200}\bld(?:\.\w+)?: )"

CC: OutputParser = (
    OutputRule(
        rf"{FILE}{AT}(?::\d+)?: fatal error: .{{1,300}}(?:: No such file or directory| file not found)$", IMPORT
    ),
    OutputRule(rf"{_LD}(?:cannot find -l|library not found for -l)", IMPORT),
    OutputRule(rf"{FILE}{AT}(?::\d+)?: (?:fatal )?error: (?!.*\[-Werror)", COMPILE),
    OutputRule(rf"{FILE}{AT}(?::\d+)?: (?:fatal )?error: .*\[-Werror[=,](?P<code>[\w=-]{{1,80}})\]$", LINT),
    OutputRule(r"(?:cc1(?:plus)?|gcc|g\+\+|clang(?:\+\+)?|cc|c\+\+): (?:fatal )?error: (?!linker command)", COMPILE),
    OutputRule(rf"{_LD}?[^\s:]{{1,300}}:(?:\(\.[^)\n]{{1,100}}\)|\d+): undefined reference to ", COMPILE, telling=True),
    OutputRule(r"(?:collect2: error: ld returned|clang(?:\+\+)?: error: linker command failed)", COMPILE),
)

CMAKE: OutputParser = (
    OutputRule(rf"CMake Error at {FILE}{AT} \((?:find_\w+|pkg_\w+)\):", IMPORT, telling=True),
    OutputRule(rf"CMake Error at [^\s:]{{0,300}}FindPackageHandleStandardArgs\.cmake{AT} ", IMPORT, telling=True),
    OutputRule(rf"CMake Error at {FILE}{AT} ", COMPILE, telling=True),
)

CTEST: OutputParser = (
    OutputRule(r" *\d+/\d+ Test +#\d+: (?P<test>\S.{0,200}?) \.*\*\*\*(?!Timeout)\w", REGRESSION, telling=True),
    OutputRule(r"\t *\d+ - (?P<test>\S.{0,200}?) \((?!Timeout|Disabled|Skipped)[^)\n]{1,60}\)", REGRESSION),
    OutputRule(r" *\d+/\d+ Test +#\d+: (?P<test>\S.{0,200}?) \.*\*\*\*Timeout", TIMEOUT, telling=True),
    OutputRule(r"\t *\d+ - (?P<test>\S.{0,200}?) \(Timeout\)", TIMEOUT),
    OutputRule(r"\[  FAILED  \] (?P<test>[\w/]{1,200}\.[\w/]{1,200})(?:,| \(|$)", REGRESSION),
    OutputRule(rf"{FILE}{AT}: Failure$", telling=True),
)

TOOLCHAIN = Toolchain(
    languages=(_LANGUAGE,),
    tools=_TOOLS,
    checks=_CHECKS,
    configuration=(
        "CMakeLists.txt",
        "CMakePresets.json",
        "CMakeUserPresets.json",
        "CTestConfig.cmake",
        "CTestCustom.cmake",
        "conanfile.txt",
        "conanfile.py",
        "conan.lock",
        "vcpkg.json",
    ),
    output={"cmake": CC + CMAKE, "ctest": CTEST + CC},
    ranked={Rank.TEST: CTEST, Rank.CHECK: CC + CMAKE},
    signs=LogSigns(
        build=r"\bundefined reference to\b|\bld returned \d+ exit status|\blinker command failed|^CMake Error\b"
        r"|^(?:g?make|ninja)(?:\[\d+\])?: \*\*\*|^ninja: build stopped|\bfatal error: .{1,200}: No such file",
        failing=r"\bSegmentation fault\b",
    ),
)
