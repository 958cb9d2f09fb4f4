"""`POST /v1/outcomes`: reports of controllers about their attempts, and the planner's verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas import codec
from schemas.base import Outbound, Verdict
from schemas.envelope import FieldError, Problem, field_error
from schemas.outcome import Outcome
from worker.gateway import openapi
from worker.gateway.access import Access, Context, Controller, Doors
from worker.gateway.bodies import MOST_OUTCOMES
from worker.gateway.event_streams import Event
from worker.gateway.messages import INVALID, read_json, refusal_of
from worker.gateway.problems import Refusal
from worker.gateway.responses import Wait, json
from worker.store import outcomes, queries
from worker.store.outcomes import AttemptRef, EntryPlace
from worker.streams.decode import read_outcome
from worker.streams.inbox import StreamEntry

router = APIRouter(prefix="/v1", tags=["controllers"])

TOO_LARGE = 413
NEEDED = ("plan_id", "attempt", "lease")
MAX_NAME = 200  # characters of a controller, as leases and outcomes keep it
LOOK_S = 1.0  # between two looks for outcomes without an event
NO_ATTEMPT = "There is no such attempt."


class OutcomesSent(Outbound):
    """Outcomes that were handed in, by the ids of their entries, in order."""

    accepted: int
    entries: tuple[str, ...]


class OutcomesAnswer(OutcomesSent):
    """The verdicts in the order of the outcomes; null if one was not judged in time."""

    verdicts: tuple[Verdict | None, ...]


class _Sent(NamedTuple):
    """An outcome that was read, and its message."""

    about: AttemptRef
    data: bytes


def _schema() -> dict[str, Any]:
    one = openapi.schema_of(Outcome)
    for name in NEEDED:
        one["properties"][name] = next(each for each in one["properties"][name]["anyOf"] if each["type"] != "null")
    one["properties"]["transcript"] = {"description": "Where it is kept; what cannot be read is left out."}
    one["required"] = [*one["required"], *NEEDED]
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_OUTCOMES}]}


@router.post(
    "/outcomes",
    status_code=202,
    response_model=OutcomesSent | OutcomesAnswer,
    responses={
        200: {"model": OutcomesAnswer, "description": "With `wait`: the verdicts."},
        **openapi.problems(404),
    },
    openapi_extra=openapi.body(_schema()),
)
async def report_attempts(request: Request, caller: Controller, doors: Doors, wait: Wait = 0) -> Response:
    """Report an attempt, or at most a hundred of them: all are taken, or none.

    An outcome that is sent again is applied once. With `wait` the answer is 200 with the verdict on each outcome, if
    all come in time.
    """
    raw = await request.body()
    if not wait:
        sent, places = await run_in_threadpool(_hand_in, doors, caller, raw)
        return json(OutcomesSent(accepted=len(places), entries=_ids(places)), 202, _where(sent))
    sent = await run_in_threadpool(_take, doors, caller, raw)
    async with doors.hub.subscribe(plans={each.about.plan_id for each in sent}, wants=_tells_of_outcome) as events:
        clock = asyncio.get_running_loop().time
        end = clock() + wait
        places = await run_in_threadpool(_publish, doors, sent)
        verdicts: dict[EntryPlace, Verdict] = {}
        gone: frozenset[EntryPlace] = frozenset()
        while len(verdicts) < len(places) and clock() < end and not events.is_over:
            came = await events.batch(min(LOOK_S, end - clock()))
            for event in came:
                if isinstance(event, Event) and (place := EntryPlace(event.partition, event.data["entry"])) in places:
                    verdicts.setdefault(place, Verdict(event.verdict or ""))
            if not came:  # no event comes for a plan that does not exist
                gone = await run_in_threadpool(_look, doors, sent, places, verdicts, gone)
    known = tuple(verdicts.get(place) for place in places)
    answer = OutcomesAnswer(accepted=len(places), entries=_ids(places), verdicts=known)
    return json(answer, 202 if None in known else 200, _where(sent))


def _tells_of_outcome(event: Event) -> bool:
    return "entry" in event.data


def _ids(places: Sequence[EntryPlace]) -> tuple[str, ...]:
    return tuple(place.entry for place in places)


def _where(sent: Sequence[_Sent]) -> dict[str, str]:
    return {"Location": f"/v1/plans/{sent[0].about.plan_id}"}


def _hand_in(doors: Context, caller: Access, raw: bytes) -> tuple[list[_Sent], tuple[EntryPlace, ...]]:
    """Publish the outcomes of a body, in one thread. Raises Refusal."""
    sent = _take(doors, caller, raw)
    return sent, _publish(doors, sent)


def _take(doors: Context, caller: Access, raw: bytes) -> list[_Sent]:
    """Return the outcomes of a body that the caller may report. Raises Refusal."""
    sent = _read(raw, caller)
    _admit(doors, caller, sent, in_list=raw.lstrip()[:1] == b"[")
    return sent


def _read(raw: bytes, caller: Access) -> list[_Sent]:
    """Return the outcomes of a body. Raises Refusal with all errors."""
    try:
        body = read_json(raw)
    except Refusal:
        if (body := codec.load_bounded(raw)) is None:  # no outcome is refused for the value of a number
            raise
    if not isinstance(body, list):
        found = _read_one(body, "", caller)
        if isinstance(found, Problem):
            raise refusal_of(found)
        return [found]
    if not 1 <= len(body) <= MOST_OUTCOMES:
        raise _refused([field_error("", "wrong_length", f"One to {MOST_OUTCOMES} outcomes, not {len(body)}.")])
    read: list[_Sent] = []
    errors: list[FieldError] = []
    status = 422
    for number, each in enumerate(body):
        found = _read_one(each, f"/{number}", caller)
        if isinstance(found, Problem):
            errors += found.errors or [field_error(f"/{number}", found.code, found.detail)]
            status = found.status if found.status == TOO_LARGE else status
        else:
            read.append(found)
    if errors:
        raise _refused(errors, status)
    return read


def _refused(errors: Sequence[FieldError], status: int = 422) -> Refusal:
    return Refusal(INVALID, f"Outcomes that do not fit the contract: {len(errors)} errors.", status, errors)


def _read_one(body: Any, before: str, caller: Access) -> _Sent | Problem:
    """Return the outcome of a body, or its errors with `before` at the start of their pointers.

    The controller gets the same name as in its lease, so that no key can act for another key's controller.
    """
    if not isinstance(body, dict):
        return Problem.of(INVALID, "An outcome is an object.", (field_error(before, "object", "Not an object."),))
    if isinstance(name := body.get("controller"), str) and 0 < len(name) <= MAX_NAME:
        body = {**body, "controller": caller.name_of(name)[:MAX_NAME]}
    data = codec.dumps(body)
    lacks = [name for name in NEEDED if body.get(name) is None]
    found = read_outcome(StreamEntry("", b"", {b"data": data}))
    wrong = [
        FieldError(pointer=before + each.pointer, code=each.code, message=each.message)
        for each in (found.errors if isinstance(found, Problem) else ())
    ]
    wrong += [field_error(f"{before}/{name}", "missing", f"An outcome names its {name}.") for name in lacks]
    if isinstance(found, Problem) and not (lacks and found.code == "missing_plan_id"):
        return found.model_copy(update={"errors": tuple(wrong)})
    if isinstance(found, Problem) or lacks:
        return Problem.of(INVALID, f"An outcome names its {', '.join(lacks)}.", tuple(wrong))
    plan_id, told = found
    about = AttemptRef(plan_id, told.outcome.step_id, told.attempt or 0, told.lease or "")
    return _Sent(about, data)


def _admit(doors: Context, caller: Access, sent: Sequence[_Sent], *, in_list: bool) -> None:
    """Raise Refusal if the caller may not report an attempt.

    A caller with the lease of a live attempt may report it. Any other caller must see the plan and have the step's
    queue. A plan that does not exist can be reported by a caller that sees everything; the verdict is then unknown.
    """
    foreign = outcomes.without_lease(doors.client, doors.partitions, [each.about for each in sent])
    if not foreign:
        return
    owners = queries.owners(doors.client, doors.partitions, [each.plan_id for each in foreign])
    sees_all = caller.key.tenant is None and not caller.key.repositories
    errors = []
    for number, each in enumerate(sent):
        if each.about not in foreign:
            continue
        owner = owners.get(each.about.plan_id)
        if not (caller.may_see(*owner) if owner else sees_all):
            errors.append(field_error(f"/{number}/plan_id" if in_list else "/plan_id", "no_such_attempt", NO_ATTEMPT))
    if errors:
        raise Refusal("no_such_attempt", NO_ATTEMPT, 404, errors)
    for queue in outcomes.queues_of(doors.client, doors.partitions, foreign):
        caller.demand_queue(queue)


def _publish(doors: Context, sent: Sequence[_Sent]) -> tuple[EntryPlace, ...]:
    return outcomes.publish(doors.client, doors.partitions, [(each.about.plan_id, each.data) for each in sent])


def _look(
    doors: Context,
    sent: Sequence[_Sent],
    places: Sequence[EntryPlace],
    verdicts: dict[EntryPlace, Verdict],
    gone: frozenset[EntryPlace],
) -> frozenset[EntryPlace]:
    """Set the verdict `unknown` for outcomes of plans that do not exist, for which no event comes.

    An outcome is judged once the planner had taken it by the previous look, which returned `gone`. Returns the outcomes
    that the planner has taken by now.
    """
    open_ = {place: each.about.plan_id for each, place in zip(sent, places, strict=True) if place not in verdicts}
    taken = outcomes.taken(doors.client, open_.keys())
    owners = queries.owners(doors.client, doors.partitions, [open_[place] for place in taken & gone])
    for place in taken & gone:
        if open_[place] not in owners:
            verdicts[place] = Verdict.UNKNOWN
    return taken
