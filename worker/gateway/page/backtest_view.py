"""`/backtest`: what `planner backtest --json` printed as a table; nothing of it is kept."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from tasks.record.backtest import Basis, Verdict
from worker.gateway.page import backtest_lines
from worker.gateway.page.backtest_lines import Backtest
from worker.gateway.page.forms import Signed
from worker.gateway.page.gantt import length
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.visible import READ_RIGHTS, PlanReader
from worker.render.backtest import BASES, WORDS, between
from worker.store.keys import PLAN_ID

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_BYTES = 600_000  # of a file: a form is taken up to 1 MiB, in which each quotation mark takes three bytes
UNUSABLE = 422


@router.get("/backtest")
def asks(request: Request, _: PlanReader) -> Response:
    """Ask for the lines."""
    return _page(request, "", None)


@router.post("/backtest")
async def shows(request: Request, form: Signed) -> Response:
    """Show the lines as a table, and what is wrong with those that cannot be read."""
    form.caller.demand(*READ_RIGHTS)
    text = form.fields.get("lines", "").replace("\r\n", "\n")  # browsers end lines of forms so
    return await run_in_threadpool(_page, request, text, await run_in_threadpool(backtest_lines.read, text))


def _page(request: Request, text: str, found: Backtest | None) -> Response:
    return render(
        request,
        "backtest.html",
        UNUSABLE if found and found.errors else 200,
        text=text if found and found.errors else "",
        found=found,
        verdicts=list(Verdict),
        bases=list(Basis),
        words=WORDS,
        base_words=BASES,
        between=between,
        length=length,
        is_plan=PLAN_ID.fullmatch,
        most_bytes=MOST_BYTES,
    )
