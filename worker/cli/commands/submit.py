"""`planner submit`: checks a goal and sends it to the planner; with `--wait` it prints the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from worker.cli.console import (
    FAILED,
    OK,
    TIMED_OUT,
    USAGE,
    Failure,
    Json,
    Kind,
    command,
    open_planner,
    read_source,
    refused,
    say,
    say_json,
    show_failure,
)
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.goal import Goal
    from tasks.rules.strategy import Rejected
    from worker.cli.goal_options import Sources
    from worker.client.planner import Planner
    from worker.store.publishing import Sent

MOST_STEPS = 200  # that are drawn
SUBMITTED_BEFORE = "Submitted before: this goal exists for the same commit. Use another --goal-id to submit it again."
HOW_TO_ALLOW = "  Name the files that may change by --file (-f), repeatable: -f src/a.py -f 'tests/**'."
NO_GOAL = "Describe the goal: FILE, --goal, --from-junit, --from-sarif, --roadmap or --inbox."


class LanguageName(StrEnum):
    """The languages that the tool catalogue knows."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"
    GO = "go"
    RUST = "rust"
    CPP = "cpp"


class Risk(StrEnum):
    """The risks of steps, the same as in schemas.base.RiskLevel."""

    LOW = "LOW"
    MED = "MED"
    HIGH = "HIGH"


class OnOverlap(StrEnum):
    """The values of schemas.base.Overlap as options of the command line."""

    ALLOW = "allow"
    WAIT = "wait"
    REFUSE = "refuse"


class WaitFor(StrEnum):
    """The event that `--wait` waits for."""

    VERDICT = "verdict"
    END = "end"


NOTHING_TOLD: Mapping[str, Any] = MappingProxyType(
    {"goal_id": None, "plan_id": None, "verdict": None, "reason": "", "errors": ()}
)
Wait = Annotated[
    WaitFor | None, typer.Option("--wait", "-w", help="Wait for the `verdict` (also without a value) or the `end`.")
]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", metavar="LENGTH", help="The longest wait, such as 90s, 30m or 2h. \\[60s; end: 30m]"),
]
DEFAULT_TIMEOUT = {None: "0", WaitFor.VERDICT: "60s", WaitFor.END: "30m"}


class SubmitCommand(TyperCommand):
    """Reads `--wait` without a word of WaitFor as `--wait verdict`, so that FILE may follow it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, list(_complete_wait(args)))


def _complete_wait(args: Sequence[str]) -> Iterator[str]:
    words = {str(each) for each in WaitFor}
    for word, after in pairwise((*args, "")):
        yield f"--wait={WaitFor.VERDICT}" if word in ("--wait", "-w") and after not in words else word


class Delivered(StrEnum):
    """The delivery of a plan's changes to the remote."""

    PUSH = "push"
    PULL_REQUEST = "pull-request"


@command
def submit(
    source: Annotated[str | None, typer.Argument(metavar="FILE|-", help="The goal as JSON; - is stdin.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", "-g", help="The change, in a sentence.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="A file or glob that may change; repeatable.")
    ] = None,
    from_junit: Annotated[Path | None, typer.Option(help="Repair the failures of this JUnit report.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Only this test of the report; repeatable.")] = None,
    from_sarif: Annotated[
        list[Path] | None, typer.Option(help="Fix the findings of this SARIF log; repeatable.")
    ] = None,
    roadmap: Annotated[Path | None, typer.Option(help="Do the open items of this Markdown file.")] = None,
    inbox: Annotated[Path | None, typer.Option(metavar="DIR", help="Do the wishes in this folder.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="The kind of goal.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Continue the reviewed plan in this folder.")
    ] = None,
    repo: Annotated[str | None, typer.Option(help="The repository's name.")] = None,
    base_sha: Annotated[str | None, typer.Option(help="The base commit. Default: the folder's commit.")] = None,
    language: Annotated[LanguageName | None, typer.Option(help="The language of the verifications.")] = None,
    test_command: Annotated[str | None, typer.Option(help="The command that runs its tests.")] = None,
    failing_test: Annotated[list[str] | None, typer.Option(help="A failing test; repeatable.")] = None,
    workdir: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder of the tests, from the root.")
    ] = None,
    goal_id: Annotated[str | None, typer.Option(help="The id of the goal; the same id is the same goal.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant of the goal.")] = None,
    queue: Annotated[str | None, typer.Option(help="The queue of its controllers.")] = None,
    drafter: Annotated[str | None, typer.Option(help="The drafter of its plan, one of the enabled ones.")] = None,
    deliver: Annotated[Delivered | None, typer.Option(help="Push its changes, or also open a pull request.")] = None,
    overlap: Annotated[
        OnOverlap | None, typer.Option(help="If live plans of the repository may change the same files.")
    ] = None,
    holdout: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST|PATH", help="Tests that judge the last steps; controllers keep them, agents never get them."
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="A limit of the plan, such as tokens=50000; repeatable."),
    ] = None,
    approvals: Annotated[
        list[Risk] | None, typer.Option(case_sensitive=False, help="Ask before steps of this risk; repeatable.")
    ] = None,
    fill: Annotated[
        bool, typer.Option("--fill/--no-fill", help="Add facts of git and the CI job that you left out.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the result of planning, and send nothing.")] = False,
    wait: Wait = None,
    timeout: Timeout = None,
    summary: Annotated[
        Path | None,
        typer.Option(envvar="GITHUB_STEP_SUMMARY", dir_okay=False, help="Append the result to this file, as Markdown."),
    ] = None,
    as_json: Json = False,
) -> int:
    r"""Submit a goal.

    [b]planner submit --goal "Fix the login test" --file src/auth.py --wait[/b]

    [b]planner submit --from-junit report.xml -f src/auth.py -f tests/test_auth.py[/b]

    [b]echo '{"goal": "Add prefix support", "allowed_files": ["src/a.py"]}' | planner submit -[/b]

    [b]planner submit --from-sarif ruff.sarif --roadmap ROADMAP.md --inbox inbox/ -f src/a.py[/b]

    --holdout takes the path or the digest of a folder or archive of tests, which judge the plan. Controllers have the
    same tests in their own --holdout DIR.

    A repair leaves out tests that failed long before; --test names the tests of the report to repair. Files may be
    globs. Options override the fields of FILE. Exit code 1 if the goal is REJECTED.

    In a checkout with the goal's files, the command adds repository, commit, files, manifests, definitions and
    language, unless FILE or an option has them. So globs find files, the project's linters check the change, and tests
    that were red at that commit do not count against the plan. A CI job adds its repository and commit, for a pull
    request the commit of its head. Uncommitted files are not included; --no-fill adds nothing.

    If another live plan may change the same file, `planner show` reports the overlap. With --overlap wait the plan
    waits for the end of earlier plans. With --overlap refuse the goal is REJECTED.

    [b]planner submit --from-junit report.xml -f 'src/**' --dry-run[/b]

    With --dry-run the command sends nothing and needs no server. It makes the plan with the settings of this machine,
    and prints every error of a goal that would be REJECTED. It names the parts that depend on a drafter or on earlier
    plans. If the planner itself fails, PLANNER_LOG_LEVEL=DEBUG prints the traceback.

    Without --goal-id, the id of a goal from a report or a CI job is a digest of its content. So the same failures of
    the same commit are one goal, even if the job runs again. If --goal-id was used with another body, the goal is
    refused with exit code 1.

    [b]planner submit --from-junit report.xml -f 'src/**' --wait end --timeout 30m[/b]

    With --wait end the exit code is 0 if the plan is COMPLETED, 1 if it is HALTED or REJECTED, and 4 after the timeout.
    The plan continues after a timeout or Ctrl-C. Events are printed on standard error.

    --from-sarif, --roadmap and --inbox make a gap report, with --from-junit too: the most critical gap is planned.
    Paths are relative to the current folder. The goal lists the files that git knows there, so that globs find them.

    A JUnit report of ruff, eslint or mypy makes a gap report of its findings. If tests failed in it as well, only the
    tests are repaired, or with --kind gap_report both are gaps. A linter's suite that failed without a readable finding
    counts as a failing test.

    A roadmap has items such as "- \[ ] 0.1 Create the parser" ("\[x]" is done); a heading may give the version. The
    command reads regular files and follows no links: pipe other sources into [b]planner submit -[/b]. An inbox has one
    Markdown file for each wish, with title, description, reason, priority and constraints as front matter or headings.
    """
    from worker.cli import goal_options, waiting
    from worker.cli.commands.summary import add_page
    from worker.render.summary import nothing_page
    from worker.sources.goal import Nothing, with_options

    timeout_s = waiting.seconds(timeout or DEFAULT_TIMEOUT[wait])
    add_page(summary, "")  # an unwritable file is reported before the goal is sent
    given = {
        "goal": goal, "allowed_files": file, "goal_id": goal_id, "tenant": tenant, "queue": queue, "kind": kind,
        "repo": repo, "base_sha": base_sha, "language": language, "test_command": test_command, "drafter": drafter,
        "failing_tests": failing_test, "workdir": workdir,
        "delivery": deliver and {"push": True, "pull_request": deliver is Delivered.PULL_REQUEST},
        "limits": goal_options.limits_of(limit or ()), "approvals": approvals,
        "overlap": overlap, "holdout": goal_options.holdout_of(holdout),
    }  # fmt: skip
    said = goal_options.from_text(read_source(source)) if source else {}
    said = goal_options.with_folder(said, folder, kind) if folder else said
    sources = goal_options.Sources(from_junit, test or [], from_sarif or [], roadmap, inbox)
    report = goal_options.read_report(sources)
    made = goal_options.with_sources(said, sources, report, kind, file)
    result = {**NOTHING_TOLD}
    if isinstance(made, Nothing):
        result |= {"verdict": "NOTHING_TO_DO", "reason": made.name.lower(), "entry": None}
        add_page(summary, nothing_page(made.value))
        say_json(result) if as_json else say(made.value)
        return OK
    body = with_options(made, given)
    if not body:
        raise Failure.of("no_goal", NO_GOAL, USAGE)
    if fill:
        guessed = goal_options.guessed_by(report, with_options(said, given))
        filling = goal_options.fill_in(body, guessed, quiet=as_json, always=dry_run)
        body, result = filling.body, result | {"filled": filling.summary, "notes": filling.notes}
    if report and report.flaky:
        result["notes"] = (*result.get("notes", ()), goal_options.note_flaky(report, quiet=as_json))
    if dry_run:
        result["notes"] = (
            *result.get("notes", ()),
            *(goal_options.propose_commands(body, quiet=as_json) if fill else ()),
        )
        return _preview(body, sources, result, as_json=as_json)
    with open_planner() as planner:
        goal_options.encode(body, planner.settings.max_goal_bytes)  # a goal that is too large is reported first
        body, once = goal_options.named(body, sources)
        data, digest = goal_options.encode(body, planner.settings.max_goal_bytes)
        sent = planner.publish(data, body.get("goal_id"), body.get("tenant"), digest, once=once)
        if note := goal_options.note_delivery(planner, body, quiet=as_json):
            result["notes"] = (*result.get("notes", ()), note)
        return tell(planner, sent, result, wait, timeout_s, summary, as_json=as_json)


def tell(
    planner: Planner,
    sent: Sent,
    about: Mapping[str, Any],
    wait: WaitFor | None,
    timeout_s: float,
    summary: Path | None = None,
    *,
    as_json: bool,
) -> int:
    """Wait as requested, and print the result of a sent goal. Returns the exit code."""
    result = {**NOTHING_TOLD, **about, "goal_id": sent.goal_id}
    result |= {**_wait(planner, sent, wait, timeout_s, summary), "entry": sent.entry}
    if as_json:
        say_json(result)
    else:
        say(_sentence(result, sent.tenant))
        if result.get("result"):
            from schemas.result import PlanResult
            from worker.render.result_text import draw

            say(draw(PlanResult.model_validate(result["result"])))
    failed = wait is WaitFor.END and result["state"] in ("HALTED", "REJECTED")
    return FAILED if failed or result["verdict"] == "REJECTED" else OK


def _preview(body: dict[str, Any], sources: Sources, result: dict[str, Any], *, as_json: bool) -> int:
    """Print the plan that a worker with these settings would make of a goal. Returns the exit code."""
    import logging

    from schemas import codec
    from schemas.goal import Goal
    from worker.cli import goal_options
    from worker.cli.console import read_settings
    from worker.engine.preview import preview
    from worker.render.mermaid import flowchart
    from worker.render.plan import blueprint
    from worker.settings.tools_file import WrongTools

    settings = read_settings()
    if settings.log_level != "DEBUG":  # an internal error is shown as a sentence, not a traceback
        logging.getLogger("planner").addHandler(logging.NullHandler())
    goal_options.encode(body, settings.max_goal_bytes)
    body, _ = goal_options.named(body, sources)
    data, _ = goal_options.encode(body, settings.max_goal_bytes)
    with refused("wrong_settings", by=WrongTools):
        found = preview(_begun(Goal.model_validate(codec.loads(data))), settings)
    steps = [step.model_dump(mode="json") for step in found.steps]
    graph = flowchart((step.step_id, "", step.depends_on) for step in found.steps) if steps else ""
    result |= {"goal_id": body.get("goal_id"), "verdict": found.verdict, "reason": found.reason, "errors": found.errors}
    result |= {"goal": body, "steps": steps, "graph": graph, "unverified": found.unverified}
    result |= {"outside": found.outside, "document": found.document}
    result["notes"] = [*result.get("notes", ()), *found.notes]
    if as_json:
        say_json(result)
    else:
        say(_sentence({**result, "verdict": result["verdict"] or "UNKNOWN"}, NO_TENANT))
        for each in filter(None, (*found.notes, found.unverified, found.outside)):
            say(each)
        if steps:
            say(blueprint(found.steps, MOST_STEPS))
            say(f"```mermaid\n{graph}\n```")
    return FAILED if found.verdict == "REJECTED" else OK


def _begun(goal: Goal) -> Goal | Rejected:
    """Return a goal. If it continues a plan, it gets that plan's commit, or is Rejected."""
    if goal.from_ is None:
        return goal
    from schemas import codec
    from worker.engine.beginnings import begin
    from worker.store.queries import Owner

    plan_id = goal.from_.plan_id
    with open_planner() as planner:
        view = planner.plan(plan_id)
        lines = map(codec.loads, planner.log(plan_id)) if view else ()
        goal = (
            goal
            if view is None or "tenant" in goal.model_fields_set
            else goal.model_copy(update={"tenant": view.tenant})
        )
        return begin(goal, Owner(view.tenant, view.repo) if view else None, lines)


def _wait(planner: Planner, sent: Sent, wait: WaitFor | None, timeout_s: float, summary: Path | None) -> dict[str, Any]:
    """Wait as requested, return the result as JSON, and write it to `summary`. Raises Failure at the timeout."""
    from schemas.base import GoalVerdict
    from schemas.plan import GoalAnswer
    from worker.cli.commands.summary import add_page, describe
    from worker.cli.waiting import EndWait, errors_of, is_over, result_of, wait_for
    from worker.client.trouble import Trouble

    answer, late = GoalAnswer(goal_id=sent.goal_id, plan_id="", verdict=GoalVerdict.PENDING, reason=""), ""
    if wait is WaitFor.VERDICT:
        answer = wait_for(planner, sent, timeout_s)
    elif wait is WaitFor.END:
        end = EndWait(planner, sent, timeout_s)
        answer = end.result() or answer
        late = "" if is_over(answer) else f"Not ended within {timeout_s:g} s. {end.look_again(answer)}"
    if summary:
        try:
            add_page(summary, describe(planner, answer))
        except (Failure, Trouble) as error:  # the result of the goal is more important
            show_failure(Failure.of("no_summary", f"No summary was written: {error}"), as_json=False)
    if late:
        raise Failure.of("not_ended", late, TIMED_OUT)
    errors = errors_of(planner, answer) if answer.verdict is GoalVerdict.REJECTED else []
    found = result_of(planner, answer) if wait is WaitFor.END else None
    return answer.model_dump(mode="json") | {"errors": errors, "result": found} if wait else {}


def _sentence(result: Mapping[str, Any], tenant: str) -> str:
    if not result["verdict"]:
        whose = "" if tenant == NO_TENANT else f" --tenant {quote(tenant)}"
        what = "Submitted goal" if result["entry"] else "Submitted before, as goal"
        return f"{what} {result['goal_id']}. Follow it: planner show {result['goal_id']}{whose}"
    why = ": ".join(filter(None, (result.get("halt_rule"), result.get("halt_reason")))) or result["reason"]
    delivered = (result.get("doubt"), result.get("branch"), result.get("pull_request"), result.get("undelivered"))
    known = [SUBMITTED_BEFORE] if result.get("entry", "") is None else []
    if any(each.get("code") == "no_allowed_files" for each in result["errors"]):
        known.append(HOW_TO_ALLOW)
    first = "  ".join(filter(None, (result.get("state") or result["verdict"], result["plan_id"], why, *delivered)))
    return "\n".join([first, *(f"  {each['pointer'] or '/'}  {each['message']}" for each in result["errors"]), *known])
