"""`planner submit`: a goal to the planner, checked here first; with `--wait` its verdict back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import FAILED, OK, USAGE, Failure, Json, Kind, command, open_link, read_source, say, say_json

if TYPE_CHECKING:
    from worker.sources.junit import JUnitReport


NO_GOAL = "Say what shall be done: FILE, --goal, --from-junit, --from-sarif, --roadmap or --inbox."


class Language(StrEnum):
    """The languages that the tool catalogue knows."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"
    GO = "go"
    RUST = "rust"
    CPP = "cpp"


class Nothing(StrEnum):
    """Why there is nothing to do: the reason is the name."""

    NO_FAILURES = "Nothing to do: no test failed in this report."
    NO_GAP = "Nothing to do: there is no gap."


@dataclass(frozen=True, slots=True)
class Sources:
    """What CI wrote, and what people wish."""

    junit: Path | None
    sarif: list[Path]
    roadmap: Path | None
    inbox: Path | None

    def are_gaps(self, kind: str | None) -> bool:
        """Tell whether they ask for a gap report.

        All do but a test report alone, which asks for a repair.
        """
        gaps = bool(self.sarif or self.roadmap or self.inbox)
        if gaps and kind not in (None, Kind.GAP_REPORT):
            raise Failure.of("wrong_kind", f"--from-sarif, --roadmap and --inbox make a gap report, no {kind}.", USAGE)
        return gaps or bool(self.junit and kind == Kind.GAP_REPORT)


@command
def submit(
    source: Annotated[str | None, typer.Argument(metavar="FILE|-", help="The goal as JSON; - is stdin.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", "-g", help="What shall be done, in a sentence.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", help="May be changed; again for more.")] = None,
    from_junit: Annotated[Path | None, typer.Option(help="Repair what failed in this test report.")] = None,
    from_sarif: Annotated[list[Path] | None, typer.Option(help="Close what this log found; again for more.")] = None,
    roadmap: Annotated[Path | None, typer.Option(help="Close what this Markdown file has open.")] = None,
    inbox: Annotated[Path | None, typer.Option(metavar="DIR", help="Close what the files of this folder ask.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="The kind of goal.")] = None,
    repo: Annotated[str | None, typer.Option(help="The repository's name.")] = None,
    base_sha: Annotated[str | None, typer.Option(help="The commit to begin at.")] = None,
    language: Annotated[Language | None, typer.Option(help="The language to verify in.")] = None,
    test_command: Annotated[str | None, typer.Option(help="How its tests are run.")] = None,
    goal_id: Annotated[str | None, typer.Option(help="The same id twice is one goal.")] = None,
    tenant: Annotated[str | None, typer.Option(help="On whose behalf.")] = None,
    queue: Annotated[str | None, typer.Option(help="Which controllers shall work on it.")] = None,
    drafter: Annotated[str | None, typer.Option(help="Who drafts its plan, of those that are enabled.")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the verdict.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at the longest.")] = 60,
    as_json: Json = False,
) -> int:
    """Submit a goal.

    [b]planner submit --goal "Fix the login test" --file src/auth.py --wait[/b]

    [b]planner submit --from-junit report.xml -f src/auth.py -f tests/test_auth.py[/b]

    [b]echo '{"goal": "Add prefix support", "allowed_files": ["src/a.py"]}' | planner submit -[/b]

    [b]planner submit --from-sarif ruff.sarif --roadmap ROADMAP.md --inbox inbox/ -f src/a.py[/b]

    Files may be globs. Options go over what FILE says. Exit code 1 if the goal is REJECTED.

    --from-sarif, --roadmap and --inbox make a gap report, --from-junit then too: the most critical gap is planned.
    Paths are relative to the current folder, and the files that git knows there go along, so that globs find them.

    A roadmap has items such as "- \\[ ] 0.1 Create the parser" ("\\[x]" is done); a heading may give the version.
    What is read are regular files, and links are not followed: pipe what is none into [b]planner submit -[/b].
    An inbox has one Markdown file a wish: title, what, why, priority, constraints as front matter or as headings.
    """
    from worker.cli import goal_options
    from worker.cli.publisher import errors_of, publish, wait_for
    from worker.sources.goal import with_options

    given = {
        "goal": goal, "allowed_files": file, "goal_id": goal_id, "tenant": tenant, "queue": queue, "kind": kind,
        "repo": repo, "base_sha": base_sha, "language": language, "test_command": test_command, "drafter": drafter,
    }  # fmt: skip
    said = goal_options.from_text(read_source(source)) if source else {}
    made = _from_sources(said, Sources(from_junit, from_sarif or [], roadmap, inbox), kind, file)
    if isinstance(made, Nothing):
        return _nothing(made, as_json=as_json)
    body = with_options(made, given)
    if not body:
        raise Failure.of("no_goal", NO_GOAL, USAGE)
    with open_link() as link:
        sent = publish(link, goal_options.encode(body, link.settings.max_goal_bytes), body.get("goal_id"))
        told: dict[str, Any] = {"goal_id": sent.goal_id, "plan_id": None, "verdict": None, "reason": "", "errors": []}
        if wait:
            answer = wait_for(link, sent, timeout)
            told |= answer.model_dump(mode="json") | {"errors": errors_of(link, answer)}
    say_json({**told, "entry": sent.entry}) if as_json else say(_sentence(told))
    return FAILED if told["verdict"] == "REJECTED" else OK


def _from_sources(
    body: dict[str, Any], sources: Sources, kind: Kind | None, allowed: list[str] | None
) -> dict[str, Any] | Nothing:
    """Put what the sources say into the goal; Nothing where there is nothing wrong."""
    from worker.cli import goal_options
    from worker.sources.goal import with_report

    report = goal_options.report_of(read_source(str(sources.junit))) if sources.junit else None
    if sources.are_gaps(kind.value if kind else body.get("kind")):
        return _with_gaps(body, sources, report, allowed or body.get("allowed_files") or [])
    if report is None:
        return body
    return with_report(body, report) if report.failed else Nothing.NO_FAILURES


def _with_gaps(
    body: dict[str, Any], sources: Sources, report: JUnitReport | None, allowed: Sequence[str]
) -> dict[str, Any] | Nothing:
    from worker.cli import goal_options as gaps
    from worker.sources.goal import GapSources, goal_of

    here = Path.cwd()
    logs = [(read_source(str(log)), log.name) for log in sources.sarif]
    told = GapSources(
        findings=tuple(found for text, name in logs for found in gaps.findings_of(text, name, here)),
        report=report,
        items=gaps.items_of(_roadmap(sources.roadmap), sources.roadmap.name) if sources.roadmap else (),
        wishes=gaps.wishes_of(sources.inbox) if sources.inbox else (),
    )
    return goal_of(body, told, allowed, here) or Nothing.NO_GAP


def _roadmap(path: Path) -> bytes:
    from worker.sources.roadmap import MAX_BYTES

    return read_source(str(path), MAX_BYTES)


def _nothing(found: Nothing, *, as_json: bool) -> int:
    told: dict[str, Any] = {
        "goal_id": None,
        "plan_id": None,
        "verdict": "NOTHING_TO_DO",
        "reason": found.name.lower(),
        "errors": [],
    }
    say_json({**told, "entry": None}) if as_json else say(found.value)
    return OK


def _sentence(told: Mapping[str, Any]) -> str:
    if not told["verdict"]:
        return f"Submitted goal {told['goal_id']}. See what becomes of it: planner show {told['goal_id']}"
    first = "  ".join(filter(None, (told["verdict"], told["plan_id"], told["reason"])))
    return "\n".join([first, *(f"  {each['pointer'] or '/'}  {each['message']}" for each in told["errors"])])
