"""What the first step of a plan finds at its base: the goal's failing tests, and checks that nobody asked for.

It counts for no retry. Failing tests that pass each time halt the plan before an agent was paid, unless its goal only
wants to be warned. Checks that were red there, or could not run, are taken out of the steps as they start.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import StepState as S
from schemas.outcome import Outcome, VerifyReceipt
from schemas.step import AtBase
from tasks.features.baseline.excuses import AT_BASE
from tasks.features.baseline.red_checks import name_of
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt, waits
from tasks.policy.advice_facts import AGAIN, Facts
from tasks.policy.flips import words_of
from tasks.policy.halt_rules import AT_ONCE
from tasks.policy.pipeline import Judgement
from tasks.text.fields import fit, flatten
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.could_not_run import why_not_run

DEATHS = 2  # of controllers, after which the plan goes on without knowing
MAX_TOLD = 200
KNOWN, UNKNOWN = "reproduced", "not reproduced"


def given_to(_: UnitOfWork, __: Step) -> Mapping[str, Any]:
    """Have the step run at the commit that the plan began with."""
    return AT_BASE


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Keep what was found at the base, and end the step whatever it was, or halt the plan."""
    step, outcome = seen.step, seen.outcome
    if seen.failure and seen.failure["category"] in AT_ONCE:
        return False
    _begin_wall_clock(unit)
    is_known = outcome.verified_at == unit.plan.head.context.get("base_sha")
    if is_known:
        ran = _ran(step, outcome)
        _keep_checks(unit, step, outcome, ran)
        if _passes(unit, step, ran):
            if AtBase.HALT in step.facts["at_base"]:
                reason, evidence = _explain(unit, step, outcome)
                halt.halt(unit, "passes_at_base", reason, evidence, step)
                return True
            unit.plan.reproduced.passed = True
    unit.plan.dirty.add("live")
    step.status.previous = None
    unit.end_step(step, S.DONE.value, "done", KNOWN if is_known else UNKNOWN)
    return True


def expire(unit: UnitOfWork, step: Step, failure: dict[str, Any], claimed: bool) -> bool:
    """Run it again where its controller died, and go on without it after the second time; that counts for no rule."""
    if not claimed:
        return False
    step.status.failures += 1
    if step.status.failures >= DEATHS:
        _begin_wall_clock(unit)
        unit.end_step(step, S.DONE.value, "done", UNKNOWN)
    else:
        unit.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        waits.back_off(unit, step, failure["category"])
    return True


def _begin_wall_clock(unit: UnitOfWork) -> None:
    """Give back all time so far: what prepares a clone and shows the failure is none that the plan has."""
    times = unit.plan.times
    took = unit.snapshot.now - times["ready"] - times.get("lost", 0)
    times["lost"] = times.get("lost", 0) + max(0, took)
    unit.plan.dirty.add("live")


def _ran(step: Step, outcome: Outcome) -> list[tuple[dict[str, Any], VerifyReceipt]]:
    """Pair the tools that were run with their receipts; none where these are of others."""
    tools, receipts = step.facts["verify_tools"], outcome.verify or ()
    if [each.tool for each in receipts] != [tool["tool"] for tool in tools[: len(receipts)]]:
        return []
    return list(zip(tools, receipts, strict=False))


def _keep_checks(
    unit: UnitOfWork, step: Step, outcome: Outcome, ran: Sequence[tuple[dict[str, Any], VerifyReceipt]]
) -> None:
    """Keep of each check whether it was red, or could not run."""
    kept, contracts = unit.plan.reproduced, catalogue_of(unit.plan.head.tools).contracts
    said = outcome.cannot_verify
    for number, (tool, receipt) in enumerate(ran, 1):
        contract = contracts.get(receipt.tool)
        if tool["tool"] not in step.facts["quick_checks"] or contract is None:
            continue
        name = name_of(words_of(tool))
        is_last = number == len(ran)
        why = (
            said.reason if said and is_last and said.tool == receipt.tool else why_not_run(contract, receipt.exit_code)
        )
        if why and receipt.exit_code >= 0:
            kept.not_run.append([name, shlex.join(tool["argv"]), fit(flatten(why), MAX_TOLD)])
            continue
        red = receipt.exit_code not in contract.pass_codes
        unit.keep_note(name, {"by": step.step_id, "red": red})
        if red:
            kept.red.append(name)


def _passes(unit: UnitOfWork, step: Step, ran: Sequence[tuple[dict[str, Any], VerifyReceipt]]) -> bool:
    """Whether the failing tests were run, and passed each time."""
    contracts, checks = catalogue_of(unit.plan.head.tools).contracts, step.facts["quick_checks"]
    tests = [tool for tool in step.facts["verify_tools"] if tool["tool"] not in checks]
    shown = [receipt for tool, receipt in ran if tool["tool"] not in checks]
    if not tests or len(shown) < len(tests):
        return False
    return all(
        (contract := contracts.get(each.tool)) is not None and each.exit_code in contract.pass_codes for each in shown
    )


def _explain(unit: UnitOfWork, step: Step, outcome: Outcome) -> tuple[str, dict[str, Any]]:
    checks, lease = step.facts["quick_checks"], unit.snapshot.leases.get(step.step_id)
    commands = [shlex.join(tool["argv"]) for tool in step.facts["verify_tools"] if tool["tool"] not in checks]
    times = len(commands) // len(set(commands))
    host = fit((lease and lease.controller) or outcome.controller or "", MAX_TOLD) or "a controller without a name"
    interpreter = fit(flatten(outcome.error_message or ""), MAX_TOLD) or commands[0].split()[0]
    command = " && ".join(dict.fromkeys(commands))
    reason = f"the goal's failing tests passed {times} times of {times} at the base ({interpreter} on {host})"
    evidence = {
        "value": times,
        "limit": times,
        "limit_name": "runs that pass",
        "step_id": step.step_id,
        "command": command,
        "interpreter": interpreter,
        "host": host,
    }
    return reason, evidence


def advise(facts: Facts) -> str:
    """Say what may differ from where the tests failed."""
    command, host = facts.evidence.get("command", "the tests"), facts.evidence.get("host", "the host")
    return (
        f"Run `{command}` at {facts.plan.head.context.get('base_sha')} where it failed, and compare interpreter and "
        f"setup with those of {host} ({facts.evidence.get('interpreter')}): mend the host, name the commit that fails, "
        f"or {AGAIN} with reproduce: warn."
    )
