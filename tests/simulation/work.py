"""The work that goals ask for: items in the files of a repository, by what kind of change it is."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.simulation.layouts import name_of_test, path_of_test, stem
from tests.simulation.repository import CoveringTest, Item, Repository, Work

GUESSED = 0.6  # how likely an agent finds a place that nobody told it
WISHES = (
    "prefix option",
    "gift note",
    "bulk discount",
    "dry run",
    "audit trail",
    "retry limit",
    "page size",
    "currency code",
)
SYMBOLS = ("rate_of", "old_total", "find_all", "as_rows", "load_page", "make_key")


def mend_a_bug(repository: Repository, rng: Random) -> Repository:
    """One wrong source, which one or two tests show; half of them say in which file."""
    source = rng.choice(repository.sources)
    covering = [test.name for test in repository.tests if source in test.covers]
    shown = frozenset(rng.sample(covering, min(len(covering), rng.randint(1, 2))))
    traced = rng.random() < 0.5
    item = Item("bug", source, f"wrong result of {stem(source)}", Work.BUG, shown, found=GUESSED, traced=traced)
    return repository.with_work([item])


def add_a_feature(
    repository: Repository, rng: Random, count: int, documents: int = 1, sources: Sequence[str] = (), wish: str = ""
) -> Repository:
    """A wish that takes a change in each of `count` sources, a new test for each, and documents.

    The sources are any unless they are named, and so is the wish.
    """
    wish = wish or rng.choice(WISHES)
    items: list[Item] = []
    tests: list[CoveringTest] = []
    for source in sources or rng.sample(repository.sources, count):
        path = path_of_test(repository.language, stem(source), source)
        new = name_of_test(repository.language, stem(source), wish.replace(" ", "_"))
        items.append(Item(f"code-{stem(source)}", source, wish, Work.FEATURE, frozenset({new})))
        items.append(Item(f"test-{stem(source)}", path, wish, Work.TESTS))
        tests.append(CoveringTest(new, path, frozenset({source}), item=f"test-{stem(source)}"))
    items += [Item(f"document-{stem(path)}", path, wish, Work.DOCUMENT) for path in repository.others[:documents]]
    return repository.with_work(items, tests)


def rename_a_symbol(repository: Repository, rng: Random, sources: int, tests: int) -> Repository:
    """A symbol that one source defines and others use; only all together fit to each other."""
    symbol = rng.choice(SYMBOLS)
    first, *users = rng.sample(repository.sources, sources)
    checked = rng.sample(repository.test_files, tests)
    items = [Item("define", first, symbol, Work.MOVE)]
    items += [Item(f"use-{at}", path, symbol, Work.MOVE, lead="define") for at, path in enumerate([*users, *checked])]
    return repository.with_work(items)


def write_tests(repository: Repository, rng: Random, count: int, sources: Sequence[str] = ()) -> Repository:
    """More tests of `count` sources, any unless they are named."""
    items: list[Item] = []
    tests: list[CoveringTest] = []
    for source in sources or rng.sample(repository.sources, count):
        path = path_of_test(repository.language, stem(source), source)
        items.append(Item(f"test-{stem(source)}", path, source, Work.TESTS))
        new = name_of_test(repository.language, stem(source), "edges")
        tests.append(CoveringTest(new, path, frozenset({source}), item=f"test-{stem(source)}"))
    return repository.with_work(items, tests)


def document(repository: Repository, rng: Random, count: int) -> Repository:
    """A wish that is told in `count` documents."""
    wish = rng.choice(WISHES)
    items = [Item(f"document-{at}", path, wish, Work.DOCUMENT) for at, path in enumerate(repository.others[:count])]
    return repository.with_work(items)


def upgrade(repository: Repository, rng: Random, count: int) -> Repository:
    """A dependency whose new version takes a change of `count` sources as well."""
    manifest = repository.others[3]
    items = [Item("upgrade", manifest, "requests", Work.UPGRADE)]
    for at, path in enumerate(rng.sample(repository.sources, count)):
        items.append(Item(f"adapt-{at}", path, f"call in {stem(path)}", Work.ADAPT, lead="upgrade", found=GUESSED))
    return repository.with_work(items)


def clean(repository: Repository, rng: Random, count: int, work: Work) -> Repository:
    """Findings of a linter or a type checker in `count` files."""
    items = [Item(f"finding-{at}", path, path, work) for at, path in enumerate(rng.sample(repository.sources, count))]
    return repository.with_work(items)


def of_work(repository: Repository, *kinds: Work) -> list[str]:
    """The files of the items of these kinds, each once."""
    return list(dict.fromkeys(item.file for item in repository.items if item.work in kinds))


def with_others(repository: Repository, rng: Random, files: Sequence[str], more: int) -> list[str]:
    """Add up to `more` sources to `files` that have nothing to do with the work, in the repository's order."""
    free = [path for path in repository.sources if path not in files]
    wanted = {*files, *rng.sample(free, min(more, len(free)))}
    known = (*repository.files, *files)
    return list(dict.fromkeys(path for path in known if path in wanted))
