"""`planner memory`: the memory of repositories: shows, deletes, exports and imports it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import (
    FAILED,
    MISSING,
    USAGE,
    Failure,
    Json,
    as_planner,
    command,
    family,
    open_link,
    read_source,
    say,
    say_json,
)

if TYPE_CHECKING:
    from tasks.memory.flaky_tests import Sighting
    from tasks.memory.outcomes import Attempted
    from tasks.plan.cached_draft import CachedDraft
    from worker.store.kept_memory import FailedChange

app = family("memory", "Show and forget the memory of a repository: attempts, flaky tests, failed changes, drafts.")

FORMAT, FORMAT_VERSION = "planner.memory", 1
MOST_READ = 4 * 1024 * 1024
FINGERPRINT = re.compile(r"[0-9a-f]{24}")
Repo = Annotated[str, typer.Argument(metavar="REPO", help="As goals name it: context.repo.")]
Tenant = Annotated[str, typer.Option("--tenant", "-t", help="The tenant of the repository.")]


@app.command("list")
@command
def list_memories(
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Only this tenant's.")] = None,
    as_json: Json = False,
) -> None:
    """List the repositories with remembered data.

    [b]planner memory list --json | jq -r '.[].repo'[/b]

    Failed changes and drafts are counted for repositories with at least one ended plan.
    """
    from worker.store import kept_memory

    with open_link() as link:
        found = [each._asdict() for each in kept_memory.list_repositories(link.client, link.partitions, tenant)]
    if as_json:
        say_json(found)
        return
    for each in found:
        tests = f"{each['tests']} tests, seen {each['sightings']} times"
        kept = f"{each['failed_changes']} changes that failed, {each['drafts']} drafts"
        attempts = f"{each['attempts']} attempts" + "".join(f" {name}" for name in each["fingerprints"])
        say(f"{each['tenant']}  {each['repo']}  {tests}; {kept}; {attempts}")
    if not found:
        say("Nothing is remembered of any repository.")


@app.command()
@command
def show(repo: Repo, tenant: Tenant = "default", as_json: Json = False) -> None:
    """Show the flaky tests, failed changes, reusable drafts and attempts of a repository.

    The list shows each test with its days, its count, and whether new plans receive it. A change shows its base
    commit, and a draft shows its plan and goal. With --json a draft also shows the answer of the drafter, which is data
    from outside. A draft answers the same goal for PLANNER_PLAN_CACHE_DAYS days. Each group of equal attempts shows
    its fingerprint, its successes and its failures by category, the newest first.

    [b]planner memory show acme/shop --json | jq -r '.flaky[]'[/b]
    """
    import time

    from tasks.memory.flaky_tests import recall
    from worker.store import flaky_memory, kept_memory, outcome_memory

    with open_link() as link:
        where = link.client, link.partitions, tenant, repo
        seen = flaky_memory.read(*where)
        failed = [_dated(each) for each in kept_memory.read_changes(*where)]
        drafts = [_dated(each) for each in kept_memory.read_drafts(*where)]
        lists = [
            each for each in outcome_memory.list_fingerprints(link.client, link.partitions, tenant) if each.repo == repo
        ]
        attempts = [
            {"fingerprint": each.fingerprint, **like}
            for each in lists
            for like in _summed(outcome_memory.read(*where, each.fingerprint))
        ]
    if not (seen or failed or drafts or attempts or as_json):
        say(f"Nothing is remembered of {repo} (tenant {tenant}).")
        return
    now = time.time_ns() // 1_000_000
    flaky = recall({f"{each.day} {each.test}": each.times for each in seen}, now).flaky
    if as_json:
        about = {"tenant": tenant, "repo": repo, "flaky": flaky}
        say_json(
            {
                **about,
                "sightings": [_tell(each) for each in seen],
                "failed_changes": failed,
                "drafts": drafts,
                "attempts": attempts,
            }
        )
        return
    for each in map(_tell, seen):
        say(f"{each['day']}  {each['times']}  {'flaky' if each['test'] in flaky else '-':5}  {each['test']}")
    for each in failed:
        say(f"{each['at'][:10]}  failed on {each['base_sha'][:12]}  {each['diff_hash']}")
    for each in drafts:
        say(f"{each['at'][:10]}  draft of {each['plan_id']} by {each['drafter']}  {' '.join(each['goal'].split())}")
    for each in attempts:
        ends = f"{each['succeeded']} of {each['attempts']}" + "".join(
            f", {name} {n}" for name, n in each["failed"].items()
        )
        say(f"{each['last']}  {each['fingerprint']}  {ends}  {each['title']}  {' '.join(each['files'])}")


@app.command()
@command
def forget(
    repo: Repo,
    tenant: Tenant = "default",
    test: Annotated[str | None, typer.Option("--test", help="Only this test.")] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Only the changes that failed.")] = False,
    drafts: Annotated[bool, typer.Option("--drafts", help="Only the drafts: their goals ask a drafter again.")] = False,
    as_json: Json = False,
) -> None:
    """Forget a repository: its attempts, its flaky tests, the changes that failed there, and its drafts.

    With a fingerprint in its place, as `planner memory list` names them: the attempts that are recorded under it alone.

    Existing plans keep their data, and continue.

    [b]planner memory forget acme/shop --test tests/test_cart.py::test_clock[/b]

    Needs the planner's own account on Redis.
    """
    from worker.store import flaky_memory, kept_memory, outcome_memory

    is_fingerprint = FINGERPRINT.fullmatch(repo) is not None
    if (test is not None) + changes + drafts > 1:
        raise Failure.of("two_parts", "Name one part alone: --test, --changes or --drafts.", USAGE)
    part = test is not None or changes or drafts
    if is_fingerprint and part:
        raise Failure.of("no_parts", "A fingerprint has attempts alone: name the repository for its parts.", USAGE)
    with open_link() as link, as_planner(link, "remove entries from memory"):
        where = link.client, link.partitions, tenant, repo
        tests = 0 if is_fingerprint or changes or drafts else flaky_memory.forget(*where, test)
        failed = kept_memory.forget(*where, kept_memory.CHANGES) if changes or not (is_fingerprint or part) else 0
        drafted = kept_memory.forget(*where, kept_memory.DRAFTS) if drafts or not (is_fingerprint or part) else 0
        named = {"fingerprint": repo} if is_fingerprint else {"repo": repo}
        attempts = 0 if part else outcome_memory.forget(link.client, link.partitions, tenant, **named)
    if not (tests or failed or drafted or attempts):
        told = test or ("changes that failed" if changes else "drafts" if drafts else "")
        of = f"{told} of {repo}" if told else repo
        raise Failure.of("nothing_remembered", f"Nothing is remembered of {of} (tenant {tenant}).", MISSING)
    if as_json:
        gone = {"forgotten": tests, "forgotten_changes": failed, "forgotten_drafts": drafted}
        gone["forgotten_attempts"] = attempts
        say_json({"tenant": tenant, "repo": repo, **gone})
        return
    parts = [
        _counted(tests, "test"),
        _counted(failed, "change"),
        _counted(drafted, "draft"),
        _counted(attempts, "attempt"),
    ]
    say(f"Forgotten: {', '.join(filter(None, parts))}.")


@app.command("export")
@command
def export_memory(repo: Repo, tenant: Tenant = "default") -> None:
    """Print the flaky tests of a repository as JSON, for `planner memory import`.

    [b]planner memory export acme/shop > shop.json[/b]
    """
    from worker.store import flaky_memory

    with open_link() as link:
        seen = flaky_memory.read(link.client, link.partitions, tenant, repo)
    about: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION, "tenant": tenant, "repo": repo}
    say_json({**about, "sightings": [_tell(each) for each in seen]})


@app.command("import")
@command
def import_memory(
    source: Annotated[str, typer.Argument(metavar="FILE", help="The file of `planner memory export`; - for stdin.")],
    repo: Annotated[str | None, typer.Option("--repo", "-r", help="For this repository instead.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="For this tenant instead.")] = None,
    as_json: Json = False,
) -> int | None:
    """Add an export to the memory; the larger count of each test stays.

    [b]planner memory import shop.json --repo acme/shop-next[/b]

    Needs the planner's own account on Redis.
    """
    from worker.store import flaky_memory

    told, seen = _read(read_source(source, MOST_READ))
    owner, name = tenant or told["tenant"], repo or told["repo"]
    with open_link() as link, as_planner(link, "add entries to memory"):
        left_out = flaky_memory.add(link.client, link.partitions, owner, name, seen)
    done = {"tenant": owner, "repo": name, "imported": len(seen) - left_out, "left_out": left_out}
    say_json(done) if as_json else say(
        f"{done['imported']} sightings of {name} are imported, {left_out} found no room."
    )
    return FAILED if left_out else None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""


def _summed(records: list[Attempted]) -> Iterator[dict[str, Any]]:
    """Yield one summary for the attempts of equal steps, in the order of their first attempts in `records`."""
    found: dict[Any, list[Attempted]] = {}
    for each in records:
        found.setdefault((each.kind, each.title, *each.files), []).append(each)
    for (kind, title, *files), alike in found.items():
        about = {"kind": kind, "title": title, "files": files, "tools": alike[0].tools, "last": _date(alike[0].day)}
        failed = Counter(each.category for each in alike if each.category)
        ends = {"attempts": len(alike), "succeeded": len(alike) - failed.total(), "failed": dict(failed)}
        yield {**about, **ends, "tokens": sum(each.tokens for each in alike)}


def _date(day: int) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()


def _dated(each: FailedChange | CachedDraft) -> dict[str, Any]:
    from schemas.times import rfc3339

    return {**each._asdict(), "at": rfc3339(each.at)}


def _tell(each: Sighting) -> dict[str, Any]:
    return {"day": _date(each.day), "test": each.test, "times": each.times}


def _read(data: bytes) -> tuple[dict[str, str], list[Sighting]]:
    """Return the content of an export. Raises Failure with its mistake."""
    from datetime import UTC, datetime, timedelta

    from schemas import codec
    from tasks.memory.flaky_tests import counter_of, sighting_of

    try:
        told = codec.loads(data)
        if (told["format"], told["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"its format is not {FORMAT}, version {FORMAT_VERSION}")
        if not all(isinstance(told[name], str) and told[name] for name in ("tenant", "repo")):
            raise ValueError("its tenant or repo is no text")
        found: list[Sighting] = []
        for each in told["sightings"]:
            day = datetime.fromisoformat(each["day"]).replace(tzinfo=UTC)
            times = each["times"]
            if not isinstance(each["test"], str) or type(times) is not int or not 0 < times < 10**9:
                raise ValueError("a sighting needs a test, and times from 1 to 999999999")
            if day > datetime.now(UTC) + timedelta(days=1):  # it may be tomorrow in another time zone
                raise ValueError(f"{each['day']} is still to come")
            counter = counter_of(each["test"], max(0, int(day.timestamp())) * 1000)
            sighting = sighting_of(counter or "", times)
            if sighting is None:
                raise ValueError(f"{each['day']} is no day, or the test has no name")
            found.append(sighting)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        detail = f"This is no export of `planner memory export`: {error}."
        raise Failure.of("no_memory", detail, USAGE) from error
    return told, found
