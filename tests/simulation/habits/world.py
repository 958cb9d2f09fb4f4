"""Twenty repositories with habits that last: where bugs are, what is hard, what is flaky, how long tests take.

None is tuned to a part of the planner. Why each is plausible stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.simulation.agent import CHECKS, MISTAKES, Errors
from tests.simulation.host import Host
from tests.simulation.layouts import make_repository, stem
from tests.simulation.repository import CoveringTest, Fault, Repository, Wrong

REPOSITORIES = 20
HOSTS = 10
SKILL = (0.3, 1.7)  # times the usual share of mistakes: models and prompts differ about that much
LANGUAGES = {"python": 14, "typescript": 3, "go": 3}
FLAKY_TESTS = {0: 50, 1: 30, 2: 20}  # repositories of a hundred with so many: about half of all projects have some
FLAKES = (0.05, 0.3)  # how often one fails for no reason: those that fail more often get mended or deleted
RED = 0.15  # of repositories whose main branch has a failing test that nobody mends
LINTED, TYPED = 0.7, 0.5  # of repositories that configure a linter, and a type checker
DRAFTED = 0.3  # of repositories whose goals a model drafts
SUITE_S = (10, 240)  # of all tests, evenly by the logarithm; a verification may take 300 s
BY_FILE = 0.05  # of the suite's time for a few files of it, and never less than LEAST_S
LEAST_S = 3
OTHERS_S = {"py_compile": 1, "gofmt": 1, "ruff": 2, "pip": 2, "eslint": 8, "go build": 8, "go vet": 8, "pyright": 20,
            "mypy": 25, "tsc": 30}  # fmt: skip
HARD = (0.5, 1.7)  # times the usual share of mistakes: long and tangled files get wrong changes

MANIFESTS = {
    "python": ("pyproject.toml", "[project]\nname = 'shop'\n", "[tool.ruff]\n", "[tool.mypy]\nstrict = true\n"),
    "typescript": ("package.json", '{"name": "shop"}', "", ""),
    "go": ("go.mod", "module shop\n", "", ""),
}


@dataclass(frozen=True)
class Habits:
    """A repository, and what is usual in it."""

    name: str
    repository: Repository  # without work; its base has what is wrong all the time
    weights: tuple[float, ...]  # of its sources, for being what a goal is about
    hard: Mapping[str, float]
    shown: Mapping[str, tuple[str, ...]]  # the tests that a bug in a source makes red
    errors: Errors
    suite_s: int
    manifests: Mapping[str, str]
    is_linted: bool
    is_typed: bool
    is_drafted: bool

    def takes(self, line: str) -> int:
        """Say how many seconds a command takes."""
        for name, seconds in OTHERS_S.items():
            if name in line:
                return seconds
        focused = "::" in line or any("/" in word and "..." not in word for word in line.split())
        return max(LEAST_S, round(self.suite_s * BY_FILE)) if focused or " -t " in line else self.suite_s


@dataclass(frozen=True)
class World:
    """The repositories, how often a goal is about each, and the fleet."""

    repositories: tuple[Habits, ...]
    weights: tuple[float, ...]
    hosts: tuple[Host, ...]


def make_world(seed: int) -> World:
    """Make the world of a seed."""
    rng = Random(f"{seed}:world")
    repositories = tuple(_habits(f"acme/r{number:02}", Random(f"{seed}:{number}:habits")) for number in range(1, 21))
    clumsy = [rng.uniform(*SKILL) for _ in range(HOSTS)]
    mean = sum(clumsy) / HOSTS
    hosts = tuple(Host(f"host-{number}", clumsy=each / mean) for number, each in enumerate(clumsy))
    return World(repositories, _skewed(REPOSITORIES, 0.7), hosts)


def _habits(name: str, rng: Random) -> Habits:
    (language,) = rng.choices(list(LANGUAGES), list(LANGUAGES.values()))
    bare = make_repository(rng, language)
    order = rng.sample(range(len(bare.sources)), len(bare.sources))
    skewed = _skewed(len(bare.sources), 1.0)
    shown = {source: _shown(bare, source, rng) for source in bare.sources}
    hard = {source: rng.uniform(*HARD) for source in bare.sources}
    is_linted, is_typed = rng.random() < LINTED, rng.random() < TYPED
    return Habits(
        name,
        _with_wrongs(bare, shown, rng),
        tuple(skewed[at] for at in order),
        hard,
        shown,
        Errors(_shaken(MISTAKES, rng), {Wrong(kind): share for kind, share in _shaken(CHECKS, rng).items()}),
        round(SUITE_S[0] * (SUITE_S[1] / SUITE_S[0]) ** rng.random()),
        _manifests(language, is_linted=is_linted, is_typed=is_typed),
        is_linted,
        is_typed or language != "python",
        rng.random() < DRAFTED,
    )


def _skewed(count: int, power: float) -> tuple[float, ...]:
    """Weigh the first most: defects, changes and work cluster in few files and few projects."""
    return tuple(1 / (at + 1) ** power for at in range(count))


def _shaken(shares: Mapping[str, float] | Mapping[Wrong, float], rng: Random) -> dict[str, float]:
    """Make shares a project's own: each between 0.4 and 1.8 of the usual."""
    return {str(kind): share * rng.uniform(0.4, 1.8) for kind, share in shares.items()}


def _shown(repository: Repository, source: str, rng: Random) -> tuple[str, ...]:
    """Choose the tests that bugs of a source make red: any that cover it, also tests of other files."""
    covering = [test.name for test in repository.tests if source in test.covers]
    return tuple(rng.sample(covering, min(len(covering), rng.randint(1, 2))))


def _with_wrongs(repository: Repository, shown: Mapping[str, tuple[str, ...]], rng: Random) -> Repository:
    """Put in what is wrong all the time: a test that is red, and flaky ones."""
    told = {test for tests in shown.values() for test in tests}
    free = [test for test in repository.tests if test.name not in told] or list(repository.tests)
    (count,) = rng.choices(list(FLAKY_TESTS), list(FLAKY_TESTS.values()))
    flaky = {test.name: rng.uniform(*FLAKES) for test in rng.sample(repository.tests, count)}
    rest: list[CoveringTest] = [test for test in free if test.name not in flaky]
    red = [_red(rng.choice(rest))] if rng.random() < RED and rest else []
    return repository.with_base(red, flaky)


def _red(test: CoveringTest) -> Fault:
    return Fault(Wrong.TEST, min(test.covers), 9001, frozenset({test.name}))


def _manifests(language: str, *, is_linted: bool, is_typed: bool) -> dict[str, str]:
    path, text, lint, types = MANIFESTS[language]
    found = {path: text + lint * is_linted + types * is_typed}
    if language == "typescript":
        found |= {"tsconfig.json": "{}"} | ({"eslint.config.js": "export default []"} if is_linted else {})
    return found


def names_of(sources: tuple[str, ...]) -> str:
    """Name sources in a sentence."""
    return " and ".join(map(stem, sources))
