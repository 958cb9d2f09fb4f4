"""`planner submit`: a goal to the planner, checked here first; with `--wait` its verdict back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from worker.cli.console import FAILED, OK, USAGE, Failure, Json, Kind, command, open_link, read_source, say, say_json

NO_GOAL = "Say what shall be done: FILE, --goal, --from-junit, --from-sarif, --roadmap or --inbox."


class LanguageName(StrEnum):
    """The languages that the tool catalogue knows."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"
    GO = "go"
    RUST = "rust"
    CPP = "cpp"


@command
def submit(
    source: Annotated[str | None, typer.Argument(metavar="FILE|-", help="The goal as JSON; - is stdin.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", "-g", help="What shall be done, in a sentence.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", help="May be changed; again for more.")] = None,
    from_junit: Annotated[Path | None, typer.Option(help="Repair what failed in this test report.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Of that report, the tests called so; again for more.")] = None,
    from_sarif: Annotated[list[Path] | None, typer.Option(help="Close what this log found; again for more.")] = None,
    roadmap: Annotated[Path | None, typer.Option(help="Close what this Markdown file has open.")] = None,
    inbox: Annotated[Path | None, typer.Option(metavar="DIR", help="Close what the files of this folder ask.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="The kind of goal.")] = None,
    repo: Annotated[str | None, typer.Option(help="The repository's name.")] = None,
    base_sha: Annotated[str | None, typer.Option(help="The commit to begin at; else the folder's.")] = None,
    language: Annotated[LanguageName | None, typer.Option(help="The language to verify in.")] = None,
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

    What was red for long is no part of a repair, unless somebody asks for it: name with --test the tests of the report.
    Without FILE a plan begins at the commit of the current folder, if the files are there: what was red then does not
    count against the plan, and globs find its files.
    Files may be globs. Options go over what FILE says. Exit code 1 if the goal is REJECTED.

    --from-sarif, --roadmap and --inbox make a gap report, --from-junit then too: the most critical gap is planned.
    Paths are relative to the current folder, and the files that git knows there go along, so that globs find them.

    A roadmap has items such as "- \\[ ] 0.1 Create the parser" ("\\[x]" is done); a heading may give the version.
    What is read are regular files, and links are not followed: pipe what is none into [b]planner submit -[/b].
    An inbox has one Markdown file a wish: title, what, why, priority, constraints as front matter or as headings.
    """
    from worker.cli import goal_options
    from worker.cli.publisher import errors_of, publish, wait_for
    from worker.sources.git import with_commit
    from worker.sources.goal import with_options

    given = {
        "goal": goal, "allowed_files": file, "goal_id": goal_id, "tenant": tenant, "queue": queue, "kind": kind,
        "repo": repo, "base_sha": base_sha, "language": language, "test_command": test_command, "drafter": drafter,
    }  # fmt: skip
    said = goal_options.from_text(read_source(source)) if source else {}
    sources = goal_options.Sources(from_junit, test or [], from_sarif or [], roadmap, inbox)
    made = goal_options.with_sources(said, sources, kind, file)
    result: dict[str, Any] = {"goal_id": None, "plan_id": None, "verdict": None, "reason": "", "errors": []}
    if isinstance(made, goal_options.Nothing):
        result |= {"verdict": "NOTHING_TO_DO", "reason": made.name.lower(), "entry": None}
        say_json(result) if as_json else say(made.value)
        return OK
    body = with_options(made, given)
    body = body if source else with_commit(body, Path.cwd())
    if not body:
        raise Failure.of("no_goal", NO_GOAL, USAGE)
    with open_link() as link:
        data = goal_options.encode(body, link.settings.max_goal_bytes)
        sent = publish(link, data, body.get("goal_id"), body.get("tenant"))
        result["goal_id"] = sent.goal_id
        if wait:
            answer = wait_for(link, sent, timeout)
            result |= answer.model_dump(mode="json") | {"errors": errors_of(link, answer)}
    say_json({**result, "entry": sent.entry}) if as_json else say(_sentence(result, body.get("tenant")))
    return FAILED if result["verdict"] == "REJECTED" else OK


def _sentence(result: Mapping[str, Any], tenant: str | None) -> str:
    if not result["verdict"]:
        whose = f" --tenant {quote(tenant)}" if tenant else ""
        return f"Submitted goal {result['goal_id']}. See what becomes of it: planner show {result['goal_id']}{whose}"
    first = "  ".join(filter(None, (result["verdict"], result["plan_id"], result["reason"])))
    return "\n".join([first, *(f"  {each['pointer'] or '/'}  {each['message']}" for each in result["errors"])])
