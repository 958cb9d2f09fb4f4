"""How simulated repositories are laid out: packages, tests and the names of both, by language."""

from __future__ import annotations

from random import Random

from tests.simulation.repository import CoveringTest, Fault, Repository, Wrong

NAMES = (
    "cart",
    "price",
    "rates",
    "orders",
    "stock",
    "labels",
    "export",
    "parcels",
    "coupons",
    "refunds",
    "tax",
    "units",
    "pages",
    "feeds",
    "search",
    "filters",
    "sorting",
    "batches",
    "mailer",
    "clock",
)
PACKAGES = ("shop", "billing", "store", "catalog", "depot")
DEEDS = ("totals", "rounds", "sorts", "reads", "writes", "empties")
FLAKES = 0.3  # how often a flaky test fails
COMMANDS = {"python": "pytest -q", "typescript": "npx jest", "go": "go test ./..."}
OTHERS = {
    "python": ("README.md", "docs/guide.md", "CHANGELOG.md", "pyproject.toml"),
    "typescript": ("README.md", "docs/guide.md", "CHANGELOG.md", "package.json", "tsconfig.json"),
    "go": ("README.md", "docs/guide.md", "CHANGELOG.md", "go.mod"),
}


def make_repository(rng: Random, language: str = "python") -> Repository:
    """Make a repository of 12 to 18 sources in one or two packages, each with two or three tests."""
    names = rng.sample(NAMES, rng.randint(12, 18))
    packages = rng.sample(PACKAGES, rng.randint(1, 2))
    sources = {name: source_path(language, packages[at % len(packages)], name) for at, name in enumerate(names)}
    tests = [
        CoveringTest(
            name_of_test(language, name, deed), path_of_test(language, name, sources[name]), frozenset(covered)
        )
        for name in names
        for deed in rng.sample(DEEDS, rng.randint(2, 3))
        for covered in [
            frozenset({sources[name], *map(sources.__getitem__, rng.sample(names, rng.choice((0, 0, 1, 2))))})
        ]
    ]
    return Repository(language, tuple(sources.values()), tuple(tests), OTHERS[language])


def source_path(language: str, package: str, name: str) -> str:
    """Say where a source lies."""
    return {
        "python": f"{package}/{name}.py",
        "typescript": f"src/{package}/{name}.ts",
        "go": f"{name}/{name}.go",
    }[language]


def path_of_test(language: str, name: str, source: str) -> str:
    """Say where the tests of a source lie."""
    folder = source.rpartition("/")[0]
    return {
        "python": f"tests/test_{name}.py",
        "typescript": f"test/{name}.test.ts",
        "go": f"{folder}/{name}_test.go",
    }[language]


def name_of_test(language: str, name: str, deed: str) -> str:
    """Name a test as its runner does."""
    return {
        "python": f"tests/test_{name}.py::test_{deed}",
        "typescript": f"{name} \u203a {deed}",
        "go": f"Test{name.capitalize()}{deed.capitalize()}",
    }[language]


def stem(path: str) -> str:
    """Name a source or test by the word that its tests share."""
    name = path.rpartition("/")[2].partition(".")[0]
    return name.removeprefix("test_").removesuffix("_test")


def surround(repository: Repository, rng: Random, *, red: bool, flaky: bool) -> Repository:
    """Add what was wrong before the goal: a failing test that it is not about, type errors, lint; a flaky test."""
    asked = frozenset(test for item in repository.items for test in item.tests)
    free = [test for test in repository.tests if test.name not in asked and not test.item]
    chosen = rng.choice(free)
    faults = []
    if red:
        kinds = rng.sample(list(_BEFORE), rng.randint(1, 2))
        for kind in kinds:
            faults += _BEFORE[kind](repository, rng, chosen)
    shaky = rng.choice([test for test in free if test is not chosen])
    return repository.with_base(faults, {shaky.name: FLAKES} if flaky else {})


def _failing(_: Repository, rng: Random, chosen: CoveringTest) -> list[Fault]:
    return [Fault(Wrong.TEST, min(chosen.covers), 9001, frozenset({chosen.name}))]


def _types(repository: Repository, rng: Random, _: CoveringTest) -> list[Fault]:
    files = rng.sample(repository.sources, rng.randint(1, 4))
    return [Fault(Wrong.TYPE, path, 9100 + at) for at, path in enumerate(files)] if repository.language != "go" else []


def _lint(repository: Repository, rng: Random, _: CoveringTest) -> list[Fault]:
    files = rng.sample((*repository.sources, *repository.test_files), rng.randint(2, 6))
    return [Fault(Wrong.LINT, path, 9200 + at) for at, path in enumerate(files)]


_BEFORE = {"failing": _failing, "types": _types, "lint": _lint}
