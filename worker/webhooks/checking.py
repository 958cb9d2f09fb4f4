"""Reads PLANNER_WEBHOOKS_FILE for a receiver of webhooks; checks its expressions and all files that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from worker.webhooks import expressions, listing
from worker.webhooks.expressions import WrongExpression
from worker.webhooks.sources_file import Rule, Source, SourcesFile, WrongSources, read_secret


def read_checked(path: Path) -> SourcesFile:
    """Return the content of PLANNER_WEBHOOKS_FILE at `path`.

    Raises WrongSources with a sentence for each mistake, in this file or in a file that it names.
    """
    found = SourcesFile.read(path)
    wrong = [
        f"{path}: source {number} ({source.name}), {mistake}"
        for number, source in enumerate(found.source, 1)
        for mistake in _mistakes(source)
    ]
    if wrong:
        raise WrongSources("\n".join(wrong))
    return found


def _mistakes(source: Source) -> Iterator[str]:
    files = (*source.secret_file, *([source.token_file] if source.token_file else ()))
    yield from _unreadable(files, read_secret, "secret_file or token_file")
    for number, rule in enumerate(source.rule, 1):
        for key, why in _of_rule(rule):
            yield f"rule {number}, {key}: {why}."
        yield from _unreadable([rule.files_from] if rule.files_from else (), listing.read, f"rule {number}, files_from")


def _of_rule(rule: Rule) -> Iterator[tuple[str, str]]:
    for check, given in ((expressions.check, rule.expressions), (expressions.check_template, rule.templates)):
        for key, text in given:
            try:
                check(text)
            except WrongExpression as error:
                yield key, f"{text!r} {error}"


def _unreadable(paths: tuple[Path, ...] | list[Path], read: Callable[[Path], object], key: str) -> Iterator[str]:
    for path in paths:
        try:
            read(path)
        except WrongSources as error:
            yield f"{key}: {error}"
