"""`/plans/{plan_id}/acts/{act}`: acts of a person on one plan. The page describes the effect, and its form sends it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.api_key import ApiKey, Right
from schemas.base import PlanState, RiskLevel, StepState
from schemas.command import CommandName
from schemas.plan import PlanSummary, PlanView, StepView, Waiting
from schemas.step import DELIVERIES
from schemas.times import rfc3339
from tasks.rules.risk import is_below
from worker.gateway.access import Access, Context, Doors, having
from worker.gateway.bodies import MAX_DEPTH, nests_deeply
from worker.gateway.page import retry
from worker.gateway.page.choices import FIELD, answer_of, offers_of
from worker.gateway.page.forms import Fields, Signed
from worker.gateway.page.plan_story import keys_of
from worker.gateway.page.rendering import HEADERS, PageRoute, query, render
from worker.gateway.problems import Refusal
from worker.gateway.routes.commands import INFORMING, obey
from worker.gateway.visible import Plan, find_plan, view_of
from worker.render.time_line import IN_FLIGHT
from worker.store import history
from worker.store.step_activity import approval_ends, with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Actor = Annotated[Access, Depends(having(Right.OPERATOR, Right.ANSWER, Right.PRODUCER))]

WAIT_S = 10.0  # for the result of a command
SEE_OTHER, UNUSABLE, CONFLICT, MISSING = 303, 422, 409, 404
ENDED = frozenset({PlanState.COMPLETED, PlanState.HALTED, PlanState.REJECTED})
OPEN = frozenset({StepState.PENDING.value, StepState.BLOCKED.value, StepState.ACTIVE.value})
PAUSES = {"": "until a resume", "1h": "for an hour", "4h": "for four hours", "1d": "for a day"}
HOURS = {"1h": 1, "4h": 4, "1d": 24}
AMOUNTS = {
    "tokens": "More tokens",
    "patch_cycles": "More patch cycles",
    "failing_outcomes": "More failing outcomes",
    "wall_clock_s": "More seconds",
}
BYTES = 16
FILLED = ("limit", "limit_value", "allow", "from_step")  # fields of a retry
MAX_FILLED = 8000  # characters
OF_STEP = {"step_id", "title", "type", "mode", "risk_level", "attempt", "allowed_files", "verify"}  # shown in a form


class Act(StrEnum):
    """An act that the page offers on a plan or a step."""

    PAUSE = CommandName.PAUSE.value
    RESUME = CommandName.RESUME.value
    TOP_UP = CommandName.TOP_UP.value
    TIGHTEN = CommandName.TIGHTEN.value
    CANCEL = CommandName.CANCEL.value
    HALT = CommandName.HALT.value
    ANSWER = CommandName.ANSWER.value
    APPROVE = CommandName.APPROVE.value
    REJECT = CommandName.REJECT.value
    SKIP = CommandName.SKIP.value
    RETRY = "retry"  # no command: another goal
    FOLLOW_UP = "follow_up"  # the same


@dataclass(frozen=True, slots=True)
class Told:
    """The title of an act, and its effect in words."""

    title: str
    effect: str
    is_final: bool = False  # it cannot be undone


TELL = {
    Act.PAUSE: Told(
        "Pause", "Starts no more steps. Attempts in flight continue to their end, and their outcomes count."
    ),
    Act.RESUME: Told("Resume", "Starts steps again."),
    Act.TOP_UP: Told("Top up", "Raises limits of this plan by your amounts. No budget can be lowered again.", True),
    Act.TIGHTEN: Told(
        "Tighten",
        "Leaves only the files that you name. An attempt with another file stops, "
        "and starts again with the remaining files.",
        True,
    ),
    Act.CANCEL: Told("Cancel", "Ends the plan: no step starts, and attempts in flight receive the stop.", True),
    Act.HALT: Told("Halt", "Ends the plan as halted: no step starts, and attempts in flight receive the stop.", True),
    Act.ANSWER: Told("Answer", "The plan continues with your answer.", True),
    Act.APPROVE: Told("Approve", "The step may start after its dependencies are done.", True),
    Act.REJECT: Told("Reject", "The step does not start, and the plan halts.", True),
    Act.SKIP: Told("Skip", "The step is not run, or not again; its dependents continue as if it were done.", True),
    Act.RETRY: Told(
        "Retry",
        "Sends the goal again, under a new id. The new plan begins from the start with "
        "its own budgets. This plan does not change.",
    ),
    Act.FOLLOW_UP: Told(
        "Follow up",
        "Sends a new goal that continues the changes of this plan. Its plan begins at the last commit, with the same "
        "repository, files, language and test command. This plan does not change.",
    ),
}
TIGHTEN_STEP = Told(
    "Tighten", "Leaves only the files that you name to the step, or raises its risk. This cannot be undone.", True
)
TIGHTEN_IN_FLIGHT = Told(
    "Tighten",
    "Leaves only the files that you name to the step. Its attempt is in flight: if it has "
    "another file, it stops and starts again with the remaining files. The risk of a step can be raised before an "
    "attempt starts, and after one has ended.",
    True,
)
ANEW = {Act.RETRY: retry.send, Act.FOLLOW_UP: retry.follow_up}  # other goals
ASKED = frozenset({Act.ANSWER, Act.APPROVE, Act.REJECT})  # acts that answer a question of the plan
QUEUED = "queued"  # activity of a step that no controller has claimed
APPROVAL = "approval"  # kind of a question if steps wait for approval; the plan itself asks nothing
RIGHTS = {
    Act.ANSWER: (Right.OPERATOR, Right.ANSWER),
    Act.RETRY: (Right.PRODUCER,),
    Act.FOLLOW_UP: (Right.PRODUCER,),
}  # else those of operators


def of_plan(plan: PlanSummary, key: ApiKey) -> list[Act]:
    """List the acts that a key may do on a plan now."""
    if plan.state in ENDED:
        goes_on = {PlanState.COMPLETED: [Act.FOLLOW_UP, Act.RETRY], PlanState.HALTED: [Act.RETRY, Act.FOLLOW_UP]}
        return goes_on.get(plan.state, [Act.RETRY]) if key.may(Right.PRODUCER) else []
    asks = plan.waiting is not None and plan.waiting.kind != APPROVAL
    answers = [Act.ANSWER] if asks and (key.may(Right.OPERATOR) or _may_inform(plan, key)) else []
    if not key.may(Right.OPERATOR):
        return answers
    if plan.state is PlanState.CREATED:
        return [*answers, Act.CANCEL]
    return [*answers, Act.RESUME if plan.paused else Act.PAUSE, Act.TOP_UP, Act.TIGHTEN, Act.CANCEL, Act.HALT]


def _may_inform(plan: PlanSummary, key: ApiKey) -> bool:
    return key.may(Right.ANSWER) and plan.waiting is not None and plan.waiting.kind == INFORMING


def of_step(plan: PlanView, step: StepView, key: ApiKey) -> list[Act]:
    """List the acts that a key may do on a step now."""
    if plan.state in ENDED or not key.may(Right.OPERATOR) or step.state not in OPEN:
        return []
    found = [Act.APPROVE, Act.REJECT] if step.waiting else []
    if _may_be_skipped(plan, step):
        found.append(Act.SKIP)
    if step.allowed_files or risks_of(step):
        found.append(Act.TIGHTEN)
    return found


def _may_be_skipped(plan: PlanView, step: StepView) -> bool:
    """Return whether neither the step nor a pre-step before its next attempt is in flight: a skip ends both."""
    if _is_in_flight(step):  # a queued delivery has no controller yet, and can be called back
        return step.queue == DELIVERIES and step.activity is not None and step.activity.kind == QUEUED
    return all(each.inserted_by != step.step_id or each.state != StepState.ACTIVE for each in plan.steps)


def _is_in_flight(step: StepView) -> bool:
    return step.activity is not None and step.activity.kind in IN_FLIGHT


def risks_of(step: StepView) -> list[RiskLevel]:
    """List the risks above the step's risk; empty while an attempt is in flight."""
    return [] if _is_in_flight(step) else [risk for risk in RiskLevel if is_below(RiskLevel(step.risk_level), risk)]


def _tell(act: Act, step: StepView | None) -> Told:
    if act is not Act.TIGHTEN or step is None:
        return TELL[act]
    return TIGHTEN_IN_FLIGHT if _is_in_flight(step) else TIGHTEN_STEP


@router.get("/plans/{plan_id}/acts/{act}")
def asks(
    request: Request,
    caller: Actor,
    plan: Plan,
    doors: Doors,
    act: Act,
    step_id: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show the effect of an act, and a form for its inputs. The address may fill in fields of a retry."""
    caller.demand(*rights_of(act))
    said = {name: request.query_params.get(name, "")[:MAX_FILLED] for name in FILLED}
    return _form(request, doors, plan, act, {**said, "step_id": step_id or "", "command_id": uuid.uuid4().hex})


@router.post("/plans/{plan_id}/acts/{act}")
async def acts(request: Request, doors: Doors, form: Signed, plan_id: str, act: Act) -> Response:
    """Send the form as a command, which the planner may refuse, and redirect to the plan."""
    form.caller.demand(*rights_of(act))
    plan = await run_in_threadpool(find_plan, doors, form.caller, plan_id)
    try:
        if act in ANEW:
            return await ANEW[act](doors, form.caller, plan, form.fields)
        if act in ASKED:
            asked = await run_in_threadpool(_read_asked, doors, plan, act, form.fields)
            if asked is None:
                return _back(plan_id, form.fields["command_id"])
            plan = asked
        said = _command(plan, act, form.fields)
        await obey(doors, form.caller, said, None, WAIT_S)
    except Refusal as refusal:
        if refusal.problem.status not in (UNUSABLE, CONFLICT):
            raise
        fields = {"asked": "", **form.fields, "command_id": uuid.uuid4().hex}  # the id before may have been noted
        return await run_in_threadpool(_form, request, doors, plan, act, fields, refusal)
    return _back(plan_id, said["command_id"])


def _back(plan_id: str, command_id: str) -> Response:
    return RedirectResponse(f"/plans/{plan_id}{query({}, command=command_id)}", SEE_OTHER, HEADERS)


def _read_asked(doors: Context, plan: PlanSummary, act: Act, fields: Fields) -> PlanView | None:
    """Return the plan, or None if it already has this command, as when a form is sent twice.

    Raises Refusal 409 if the plan's question has changed since the form was made.
    """
    view = view_of(doors, plan.plan_id)
    is_same = fields.get("asked") == _asked(doors, view, act, _step(view, fields.get("step_id", "")))
    if is_same:
        return view
    if history.find_command(doors.client, keys_of(doors, plan.plan_id), fields.get("command_id", "")) is None:
        detail = "The question has changed since this page was opened. Read it again."
        raise Refusal("question_changed", detail, CONFLICT)
    return None


def _asked(doors: Context, view: PlanView, act: Act, step: StepView | None) -> str:
    """Return the digest of the question that an act answers; empty for an act that answers none."""
    if act not in ASKED:
        return ""
    until = approval_ends(doors.client, doors.partitions, view.plan_id, step.step_id) if step else None
    return digest_of(view.waiting if act is Act.ANSWER else None, step, until)


def _without_answer(fields: Fields) -> Fields:
    """Return a form's fields without the answer to an earlier question.

    A written answer is kept under `unsent`, so that the user can copy it.
    """
    kept = {name: fields[name] for name in ("step_id", "command_id", "reason") if name in fields}
    return kept if _chose(fields) else {**kept, "unsent": fields.get("answer", "").strip()}


def rights_of(act: Act) -> tuple[Right, ...]:
    """Return the rights for an act. A key needs one of them."""
    return RIGHTS.get(act, (Right.OPERATOR,))


def _form(
    request: Request, doors: Context, plan: PlanSummary, act: Act, fields: Fields, refusal: Refusal | None = None
) -> Response:
    view = view_of(doors, plan.plan_id)
    step = _step(view, fields.get("step_id", ""))
    if step:
        alone = view.model_copy(update={"steps": (step,)})
        (step,) = with_activity(doors.client, doors.partitions, alone).steps
    digest = _asked(doors, view, act, step)
    if fields.get("asked", digest) != digest:
        fields = _without_answer(fields)
    return render(
        request,
        "act.html",
        (refusal.problem.status or UNUSABLE) if refusal else 200,
        plan=view,
        step=step,
        asked=digest,
        act=act,
        told=_tell(act, step),
        fields=fields,
        refusal=refusal.problem if refusal else None,
        pauses=PAUSES,
        amounts=AMOUNTS,
        risks=risks_of(step) if step else (),
        offers=offers_of(view.waiting) if act is Act.ANSWER else (),
        retried=retry.describe(doors, view, fields.get("from_step", "")) if act is Act.RETRY else None,
    )


def _step(view: PlanView, step_id: str) -> StepView | None:
    if not step_id:
        return None
    for step in view.steps:
        if step.step_id == step_id:
            return step
    raise Refusal("no_such_step", f"The plan has no step {step_id[:64]!r}.", MISSING)


def _command(plan: PlanSummary, act: Act, fields: Fields) -> dict[str, Any]:
    """Return the body of the command in a form. Raises Refusal."""
    step_id = fields.get("step_id") or None
    said: dict[str, Any] = {
        "command": act.value,
        "scope": "step" if step_id else "plan",
        "plan_id": plan.plan_id,
        "command_id": fields.get("command_id") or uuid.uuid4().hex,
        "reason": " ".join(fields.get("reason", "").split()),
        **({"step_id": step_id} if step_id else {}),
    }
    if act is Act.ANSWER and _chose(fields):
        said["value"] = _chosen(plan.waiting, fields)
    elif act in VALUES:
        said["value"] = VALUES[act](fields)
    if act is Act.PAUSE and (until := read_until(fields)):
        said["until"] = until
    if act is Act.ANSWER and not step_id and plan.waiting and plan.waiting.kind != APPROVAL:
        said["question"] = plan.waiting.kind  # by the time that it is obeyed another may be asked
    return said


def _chose(fields: Fields) -> bool:
    return any(value for name, value in fields.items() if name.startswith(FIELD))


def _chosen(waiting: Waiting | None, fields: Fields) -> Any:
    """Return the answer that was chosen in a form. Raises Refusal unless each question has one."""
    answer = answer_of(waiting, fields)
    if answer is None:
        raise Refusal("no_answer_given", "Choose an answer to each question, or write all of them.", UNUSABLE)
    return answer


def read_until(fields: Fields) -> str | None:
    """Return the time until which a pause lasts; None if it has no end."""
    hours = HOURS.get(fields.get("until", ""))
    return rfc3339(int((datetime.now(UTC) + timedelta(hours=hours)).timestamp() * 1000)) if hours else None


def _amounts(fields: Fields) -> dict[str, int]:
    found = {name: fields[name].strip() for name in AMOUNTS if fields.get(name, "").strip()}
    if not found or not all(
        text.isascii() and text.isdigit() and len(text) < len("1000000000") for text in found.values()
    ):
        raise Refusal("nothing_to_add", "Enter the amounts to add, as whole numbers.", UNUSABLE)
    return {name: int(text) for name, text in found.items()}


def _less(fields: Fields) -> dict[str, Any]:
    files = [line.strip() for line in fields.get("files", "").splitlines() if line.strip()]
    risk = fields.get("risk", "")
    value = {**({"allowed_files": files} if files else {}), **({"risk_level": risk} if risk else {})}
    if not value:
        raise Refusal("nothing_to_tighten", "Name the remaining files, or a risk.", UNUSABLE)
    return value


def _answer(fields: Fields) -> Any:
    """Return a written answer: parsed JSON if it is an object or a list, else the text unchanged."""
    text = fields.get("answer", "").replace("\r\n", "\n")
    if not text.strip():
        raise Refusal("no_answer_given", "Write an answer.", UNUSABLE)
    if text.lstrip()[:1] in ("{", "["):
        encoded = text.encode()
        if nests_deeply(encoded):
            detail = f"In the answer lists and objects are nested more than {MAX_DEPTH} deep."
            raise Refusal("invalid_json", detail, UNUSABLE)
        try:
            return codec.loads(encoded)
        except codec.DecodeError as error:
            raise Refusal("invalid_json", f"The answer begins like JSON and is none: {error}.", UNUSABLE) from error
    return text


VALUES: dict[Act, Callable[[Fields], Any]] = {Act.TOP_UP: _amounts, Act.TIGHTEN: _less, Act.ANSWER: _answer}


def offered(caller: Access, plan: PlanView, steps: tuple[StepView, ...]) -> dict[str, list[Act]]:
    """Return the acts that a caller may do: for the plan under an empty name, for each of these steps under its id."""
    return {"": of_plan(plan, caller.key), **{step.step_id: of_step(plan, step, caller.key) for step in steps}}


def digest_of(waiting: Waiting | None, step: StepView | None, until: int | None) -> str:
    """Return the digest of a plan's question, or of a step that waits for approval, with its end time `until` in ms.

    Two questions with the same words have different digests, because their end times differ.
    """
    question = waiting.model_dump(mode="json") if waiting else None
    told = step.model_dump(mode="json", include=OF_STEP) if step else None
    return blake2b(codec.canonical([question, told, until]), digest_size=BYTES).hexdigest()
