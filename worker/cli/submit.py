"""`planner submit`: a goal to the planner, checked here first; with `--wait` its verdict back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.cli.console import FAILED, OK, USAGE, Failure, Json, command, linked, say, say_json


class Language(StrEnum):
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
    repo: Annotated[str | None, typer.Option(help="The repository's name.")] = None,
    base_sha: Annotated[str | None, typer.Option(help="The commit to begin at.")] = None,
    language: Annotated[Language | None, typer.Option(help="The language to verify in.")] = None,
    test_command: Annotated[str | None, typer.Option(help="How its tests are run.")] = None,
    goal_id: Annotated[str | None, typer.Option(help="The same id twice is one goal.")] = None,
    tenant: Annotated[str | None, typer.Option(help="On whose behalf.")] = None,
    queue: Annotated[str | None, typer.Option(help="Which controllers shall work on it.")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for the verdict.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at the longest.")] = 60,
    as_json: Json = False,
) -> int:
    """Submit a goal.

    [b]planner submit --goal "Fix the login test" --file src/auth.py --wait[/b]

    [b]planner submit --from-junit report.xml -f src/auth.py -f tests/test_auth.py[/b]

    [b]echo '{"goal": "Add prefix support", "allowed_files": ["src/a.py"]}' | planner submit -[/b]

    Files may be globs. Options go over what FILE says. Exit code 1 if the goal is REJECTED.
    """
    from worker.cli import goals
    from worker.cli.verdict import errors_of, publish, wait_for

    body = goals.from_text(_read(source)) if source else {}
    if from_junit:
        report = goals.report_of(_read(str(from_junit)))
        if not report.failed:
            return _nothing(as_json=as_json)
        body = goals.with_report(body, report)
    given = {
        "goal": goal, "allowed_files": file, "goal_id": goal_id, "tenant": tenant, "queue": queue,
        "repo": repo, "base_sha": base_sha, "language": language, "test_command": test_command,
    }  # fmt: skip
    body = goals.with_options(body, given)
    if not body:
        raise Failure.of("no_goal", "Say what shall be done: FILE, --goal or --from-junit.", USAGE)
    with linked() as link:
        sent = publish(link, goals.checked(body, link.settings.max_goal_bytes), body.get("goal_id"))
        told: dict[str, Any] = {"goal_id": sent.goal_id, "plan_id": None, "verdict": None, "reason": "", "errors": []}
        if wait:
            answer = wait_for(link, sent, timeout)
            told |= answer.model_dump(mode="json") | {"errors": errors_of(link, answer)}
    say_json({**told, "entry": sent.entry}) if as_json else say(_sentence(told))
    return FAILED if told["verdict"] == "REJECTED" else OK


def _read(source: str) -> bytes:
    try:
        return typer.get_binary_stream("stdin").read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise Failure.of("unreadable_file", f"{source}: {error.strerror}.", USAGE) from error


def _nothing(*, as_json: bool) -> int:
    told: dict[str, Any] = {
        "goal_id": None,
        "plan_id": None,
        "verdict": "NOTHING_TO_DO",
        "reason": "no_failures",
        "errors": [],
    }
    say_json({**told, "entry": None}) if as_json else say("Nothing to do: no test failed in this report.")
    return OK


def _sentence(told: Mapping[str, Any]) -> str:
    if not told["verdict"]:
        return f"Submitted goal {told['goal_id']}. See what becomes of it: planner show {told['goal_id']}"
    first = "  ".join(filter(None, (told["verdict"], told["plan_id"], told["reason"])))
    return "\n".join([first, *(f"  {each['pointer'] or '/'}  {each['message']}" for each in told["errors"])])
