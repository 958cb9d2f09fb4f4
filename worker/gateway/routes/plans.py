"""`/v1/plans`: lists of plans and single plans, in the JSON that the commands with the same names print."""

from __future__ import annotations

from hashlib import blake2b
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from schemas import codec
from schemas.base import GoalKind, Name, Outbound, PlanState, Word
from schemas.plan import PlanSummary, PlanView, StepView
from schemas.result import PlanResult
from worker.gateway import openapi
from worker.gateway.access import Access, Context, Doors
from worker.gateway.page.plan_story import keys_of, read_lines
from worker.gateway.problems import Refusal
from worker.gateway.responses import MOST_ITEMS, PAGE, Limit, Moment, Page, json, page
from worker.gateway.visible import Plan, PlanReader, count_states, list_plans, view_of
from worker.render.explanation import explanation
from worker.render.mermaid import flowchart
from worker.render.result_reading import ALL_DIFFS, read_result
from worker.render.summary import page_of_plan
from worker.store import attachments, dead, export, history, kept_goals
from worker.store.dead import Dead
from worker.store.keys import Partition, partition_of
from worker.store.plan_lists import PlanFilter
from worker.store.step_activity import with_activity

router = APIRouter(tags=["plans"])
of_plan = APIRouter(prefix="/v1/plans/{plan_id}", tags=["plans"], responses=openapi.problems(404))

Offset = Annotated[str, Query(pattern=r"^(0|[1-9][0-9]{0,8})$", description="`next_cursor` of the page before.")]
SHOWN = openapi.schema_of(PlanView, optional=("steps",))
SHOWN["properties"]["next_cursor"] = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "More steps."}
TEXT = {"schema": {"type": "string"}}


class LogPage(Outbound):
    """Lines of a plan's log, the oldest first, as `planner export` has them."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str | None


class PlanPage(Page[PlanSummary]):
    """Some plans. If requested, `counts` is the number of plans in each state, null if the caller may not know it."""

    counts: dict[str, int] | None = None


class KeptGoal(Outbound):
    """The kept parts of a plan's goal; `left_out` has pointers to the others."""

    goal: dict[str, Any]
    left_out: tuple[str, ...]


@router.get("/v1/plans", response_model=PlanPage)
def plans(
    caller: PlanReader,
    doors: Doors,
    state: PlanState | None = None,
    kind: GoalKind | None = None,
    repo: Annotated[Name | None, Query()] = None,
    tenant: Annotated[Name | None, Query()] = None,
    rule: Annotated[Word | None, Query(description="Plans that this rule ended.")] = None,
    waiting: Annotated[bool, Query(description="Plans that wait for a person.")] = False,
    since: Annotated[Moment | None, Query(description="Made then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Made before then.")] = None,
    id_prefix: Annotated[str, Query(max_length=64)] = "",
    text: Annotated[
        str, Query(max_length=200, description="Words, each in its goal, its goal's id or its repository.")
    ] = "",
    limit: Limit = PAGE,
    cursor: Annotated[
        str | None,
        Query(pattern=r"^[0-9]{1,15}\.plan_[0-9a-f]{2}-[0-9a-f]{32}$", description="`next_cursor` of the page before."),
    ] = None,
    include: Annotated[Literal["counts"] | None, Query(description="How many plans are in each state.")] = None,
) -> Response:
    """List plans, the newest first; a plan must match all parameters. A page before the last one may be short."""
    wanted = PlanFilter(
        state=state, kind=kind, repo=repo, tenant=tenant, rule=rule, waiting=waiting, since=since, until=until,
        id_prefix=id_prefix, text=text,
    )  # fmt: skip
    more = {"counts": count_states(doors, caller.sight)} if include else {}
    found = list_plans(doors, caller.sight, wanted, limit, cursor)
    return page(found.items, found.next_cursor, **more)


@of_plan.get("", responses={200: openapi.response("The plan.", SHOWN), 304: {"description": "As it was."}})
def show(
    plan: Plan,
    doors: Doors,
    include: Annotated[Literal["steps"] | None, Query(description=f"The first {MOST_ITEMS} steps too.")] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Show a plan; its `ETag` changes with everything but the clock."""
    view = with_activity(doors.client, doors.partitions, view_of(doors, plan.plan_id))
    view = doors.results.with_result(view)
    if include:
        shown = view.model_dump(mode="json")
        more = len(shown["steps"]) > MOST_ITEMS
        shown |= {"steps": shown["steps"][:MOST_ITEMS], "next_cursor": str(MOST_ITEMS) if more else None}
    else:
        shown = view.model_dump(mode="json", exclude={"steps"})
    tag = _tag(shown)
    if if_none_match and _names(if_none_match, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json(shown, headers={"ETag": tag})


def _names(if_none_match: str, tag: str) -> bool:
    """Return whether the header contains a tag; weak and strong tags compare alike (RFC 9110, 13.1.2)."""
    named = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return named == ["*"] or tag.removeprefix("W/") in named


def _tag(shown: dict[str, Any]) -> str:
    """Return the weak ETag of a plan, without the wall clock and its forecast: these always change in a live plan."""
    body = {**shown, "budget": _without_clock(shown["budget"], "spent")}
    if shown.get("forecast"):
        body["forecast"] = _without_clock(shown["forecast"], "likely")
    return f'W/"{blake2b(codec.dumps(body), digest_size=12).hexdigest()}"'


def _without_clock(lines: dict[str, Any], name: str) -> dict[str, Any]:
    return {**lines, "wall_clock_s": {**lines["wall_clock_s"], name: None}}


@of_plan.get("/steps", response_model=Page[StepView])
def steps(plan: Plan, doors: Doors, limit: Limit = PAGE, cursor: Offset = "0") -> Response:
    """List the steps of a plan in their planned order, each with its current activity."""
    first, view = int(cursor), view_of(doors, plan.plan_id)
    more = first + limit < len(view.steps)
    view = view.model_copy(update={"steps": view.steps[first : first + limit]})
    return page(with_activity(doors.client, doors.partitions, view).steps, str(first + limit) if more else None)


@of_plan.get("/steps/{step_id}", response_model=StepView)
def step(plan: Plan, doors: Doors, step_id: str) -> Response:
    """Show a step of a plan."""
    view = view_of(doors, plan.plan_id)
    view = view.model_copy(update={"steps": tuple(each for each in view.steps if each.step_id == step_id)})
    if not view.steps:
        raise _no_step(step_id)
    return json(with_activity(doors.client, doors.partitions, view).steps[0])


@of_plan.get("/steps/{step_id}/transcript", response_class=PlainTextResponse)
def transcript(plan: Plan, doors: Doors, step_id: str, attempt: Annotated[int, Query(ge=1, le=1_000_000)]) -> Response:
    """Return the output of an attempt's agent, if its controller sent it: data from outside, truncated."""
    keys = keys_of(doors, plan.plan_id)
    lines = read_lines(doors.client, keys, {step_id})
    known = {each["attempt"]: each for each in history.story_in(doors.client, keys, lines).get(step_id, ())}
    text = attachments.read_transcript(
        doors.client, doors.partitions, plan.plan_id, plan.tenant, known.get(attempt, {})
    )
    if not text:
        raise Refusal("no_transcript", f"No transcript is kept of attempt {attempt} of {step_id[:64]!r}.", 404)
    return PlainTextResponse(text, headers={"Content-Disposition": "inline"})


@of_plan.get("/log", response_model=LogPage, responses={200: {"content": {history.JSON_LINES: TEXT}}})
def log(
    plan: Plan,
    doors: Doors,
    limit: Limit = PAGE,
    cursor: Offset = "0",
    accept: Annotated[
        str, Header(description=f"`{history.JSON_LINES}` for all lines behind the cursor, however many.")
    ] = "",
) -> Response:
    """List the lines of a plan's log as they are stored, the oldest first."""
    keys, first = Partition(partition_of(plan.plan_id, doors.partitions)).plan(plan.plan_id), int(cursor)
    if history.JSON_LINES in accept:
        found = history.read_lines(doors.client, keys, first)
        return StreamingResponse((line + b"\n" for line in found), media_type=history.JSON_LINES)
    lines = list(islice(history.read_lines(doors.client, keys, first, limit + 1), limit + 1))
    return page(map(codec.raw, lines[:limit]), str(first + limit) if len(lines) > limit else None)


@of_plan.get("/explain", response_model=dict[str, Any])
def explain(
    plan: Plan, doors: Doors, step_id: Annotated[str | None, Query(alias="step", description="Only this one.")] = None
) -> Response:
    """Explain a plan: the cause of its end, the ways to go on, and the history of each step."""
    view = view_of(doors, plan.plan_id)
    if step_id is not None and all(each.step_id != step_id for each in view.steps):
        raise _no_step(step_id)
    return json(_explained(doors, view, step_id))


@of_plan.get("/goal", response_model=KeptGoal)
def kept_goal(
    plan: Plan,
    doors: Doors,
    step_id: Annotated[
        str | None, Query(alias="from", description="Of a goal that takes over the steps done before this one.")
    ] = None,
) -> Response:
    """Return the kept parts of a plan's goal; another plan can be made from them."""
    body, left_out = kept_goal_of(doors, plan.plan_id, step_id)
    return json(KeptGoal(goal=body, left_out=left_out))


@of_plan.get("/export", response_model=dict[str, Any])
def whole(plan: Plan, caller: PlanReader, doors: Doors) -> Response:
    """Write all that is kept of a plan as one document, which is sent while it is read."""
    pieces = export.export(doors.client, doors.partitions, plan.plan_id, lambda one: may_see_dead(doors, caller, one))
    return StreamingResponse(pieces, media_type="application/json")


@of_plan.get("/summary.md", responses={200: {"content": {"text/markdown": TEXT}}}, response_class=PlainTextResponse)
def summary(plan: Plan, doors: Doors) -> Response:
    """Return the result of a plan as a page of Markdown."""
    view = view_of(doors, plan.plan_id)
    found = page_of_plan(view, _explained(doors, view, None), doors.results.read(view))
    return Response(found, media_type="text/markdown")


@of_plan.get("/result", response_model=PlanResult)
def result(plan: Plan, doors: Doors) -> Response:
    """Return the result of a plan: files, verifications, answers, cost, and the command that fetches it."""
    return json(doors.results.read(view_of(doors, plan.plan_id)))


@of_plan.get("/changes.diff", response_class=PlainTextResponse)
def changes(
    plan: Plan, doors: Doors, step_id: Annotated[str | None, Query(alias="step", description="Only this one.")] = None
) -> Response:
    """Return the kept diffs of landed changes, in the order of the steps."""
    found = read_result(doors.client, doors.partitions, view_of(doors, plan.plan_id), diffs=ALL_DIFFS).diffs
    texts = [text for (name, _), text in found.items() if step_id in (None, name)]
    if step_id is not None and not texts:
        raise Refusal("no_diff", f"No diff is kept of a step {step_id[:64]!r}.", 404)
    return PlainTextResponse(b"".join(texts), headers={"Content-Disposition": "inline"})


@of_plan.get("/graph.mmd", response_class=PlainTextResponse)
def graph(plan: Plan, doors: Doors) -> Response:
    """Draw the steps of a plan as a Mermaid flowchart."""
    found = view_of(doors, plan.plan_id).steps
    return PlainTextResponse(flowchart((each.step_id, each.state, each.depends_on) for each in found) + "\n")


def may_see_dead(doors: Context, caller: Access, one: Dead) -> bool:
    """Return whether the caller may see a dead entry; if its owner is unknown, only a key for all tenants may."""
    if caller.key.sees_all:
        return True
    owner = dead.owner(doors.client, doors.partitions, one)
    return owner is not None and caller.may_see(*owner)


def kept_goal_of(doors: Context, plan_id: str, step_id: str | None) -> kept_goals.KeptGoal:
    """Return the stored goal of a plan, or the rest of it from a step on. Raises Refusal."""
    if not step_id:
        return kept_goals.read(doors.client, doors.partitions, plan_id)
    try:
        return kept_goals.read_rest(doors.client, doors.partitions, plan_id, step_id)
    except kept_goals.NoRest as error:
        raise Refusal(error.code, str(error), 404 if error.code == "no_such_step" else 409) from error


def _explained(doors: Context, view: PlanView, only: str | None) -> dict[str, Any]:
    keys = Partition(partition_of(view.plan_id, doors.partitions)).plan(view.plan_id)
    return explanation(view, history.story(doors.client, keys), only)


def _no_step(step_id: str) -> Refusal:
    return Refusal("no_such_step", f"The plan has no step {step_id[:64]!r}.", 404)
