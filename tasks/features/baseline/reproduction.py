"""The first step of a plan runs the goal's failing tests and the added checks at the plan's base.

It counts for no retry. Failing tests that pass each time halt the plan before any agent is paid, unless its goal only
wants a warning. Checks that failed there, or could not run, are removed from the steps at their start.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from schemas.base import StepState as S
from schemas.outcome import AtTarget, Outcome, TestWord, VerifyReceipt
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
from tasks.toolchain.proof import unpassed

DEATHS = 2  # lost controllers, before the plan goes on without a result
MAX_TOLD = 200
SHOWN = 12  # characters of a commit's id
DELIVERS = "delivery_wait_s"  # among limits
KNOWN, UNKNOWN = "reproduced", "not reproduced"


def given_to(unit: UnitOfWork, _: Step) -> Mapping[str, Any]:
    """Return the context of the step: it runs at the plan's base, and at the tip of the target if the plan delivers."""
    return {**AT_BASE, "then_at": "target"} if DELIVERS in unit.plan.limits else AT_BASE


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Store the results from the base and end the step as done, or halt the plan if its tests already pass.

    Returns false if the attempt failed in a way that halts the plan at once; another function handles that.
    """
    step, outcome = seen.step, seen.outcome
    if seen.failure and seen.failure["category"] in AT_ONCE:
        return False
    _begin_wall_clock(unit)
    is_known = outcome.verified_at == unit.plan.head.context.get("base_sha")
    if is_known:
        ran = _ran(step, outcome.verify)
        _keep_checks(unit, step, outcome, ran)
        if _passes(unit, step, ran):
            if AtBase.HALT in step.facts["at_base"]:
                reason, evidence = _explain(unit, step, outcome)
                halt.halt(unit, "passes_at_base", reason, evidence, step)
                return True
            unit.plan.reproduced.passed = True
        elif _is_fixed(outcome.at_target, unit, step):
            reason, evidence = _explain_fixed(step, outcome.at_target)
            halt.halt(unit, "already_fixed", reason, evidence, step)
            return True
    unit.plan.dirty.add("live")
    step.status.previous = None
    unit.end_step(step, S.DONE.value, "done", KNOWN if is_known else UNKNOWN)
    return True


def expire(unit: UnitOfWork, step: Step, failure: dict[str, Any], claimed: bool) -> bool:
    """Run the step again after its controller died; the second time, go on without a result.

    No rule counts this. Returns false if no controller had claimed the attempt.
    """
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
    """Restart the wall clock: preparing a clone and reproducing the failure takes no time of the plan."""
    times = unit.plan.times
    took = unit.snapshot.now - times["ready"] - times.get("lost", 0)
    times["lost"] = times.get("lost", 0) + max(0, took)
    unit.plan.dirty.add("live")


def _ran(step: Step, shown: Sequence[VerifyReceipt] | None) -> list[tuple[dict[str, Any], VerifyReceipt]]:
    """Pair the tools that ran with their receipts; empty if the receipts are of other tools."""
    tools, receipts = step.facts["verify_tools"], shown or ()
    if [each.tool for each in receipts] != [tool["tool"] for tool in tools[: len(receipts)]]:
        return []
    return list(zip(tools, receipts, strict=False))


def _keep_checks(
    unit: UnitOfWork, step: Step, outcome: Outcome, ran: Sequence[tuple[dict[str, Any], VerifyReceipt]]
) -> None:
    """Store which checks failed, or could not run."""
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
    """Return whether the failing tests ran, and passed each time; reports that lack one of them show no pass."""
    catalogue = catalogue_of(unit.plan.head.tools)
    contracts, checks = catalogue.contracts, step.facts["quick_checks"]
    tests = [tool for tool in step.facts["verify_tools"] if tool["tool"] not in checks]
    told = [(receipt, tuple(tool["argv"])) for tool, receipt in ran if tool["tool"] not in checks]
    if TestWord.ABSENT in unpassed(told, catalogue).values():
        return False
    shown = [receipt for tool, receipt in ran if tool["tool"] not in checks]
    if not tests or len(shown) < len(tests):
        return False
    return all(
        (contract := contracts.get(each.tool)) is not None and each.exit_code in contract.pass_codes for each in shown
    )


def _is_fixed(told: AtTarget | None, unit: UnitOfWork, step: Step) -> TypeGuard[AtTarget]:
    """Return whether the failing tests pass at the tip of the target branch, and the goal wants a halt then."""
    return told is not None and AtBase.HALT in step.facts["at_base"] and _passes(unit, step, _ran(step, told.verify))


def _explain_fixed(step: Step, told: AtTarget) -> tuple[str, dict[str, Any]]:
    command, target = _command(step), fit(told.target_sha, MAX_TOLD)
    reason = f"the goal's failing tests fail at the base, and pass at {target[:SHOWN]}, which the target is at now"
    evidence = {"value": target, "limit": None, "limit_name": "target", "target_sha": target}
    return reason, {**evidence, "step_id": step.step_id, "command": command}


def _command(step: Step) -> str:
    """Return the command line of the failing tests."""
    checks = step.facts["quick_checks"]
    return " && ".join(
        dict.fromkeys(shlex.join(tool["argv"]) for tool in step.facts["verify_tools"] if tool["tool"] not in checks)
    )


def _explain(unit: UnitOfWork, step: Step, outcome: Outcome) -> tuple[str, dict[str, Any]]:
    checks, lease = step.facts["quick_checks"], unit.snapshot.leases.get(step.step_id)
    commands = [shlex.join(tool["argv"]) for tool in step.facts["verify_tools"] if tool["tool"] not in checks]
    times = len(commands) // len(set(commands))
    host = fit((lease and lease.controller) or outcome.controller or "", MAX_TOLD) or "a controller without a name"
    interpreter = fit(flatten(outcome.error_message or ""), MAX_TOLD) or commands[0].split()[0]
    reason = f"the goal's failing tests passed {times} times of {times} at the base ({interpreter} on {host})"
    evidence = {
        "value": times,
        "limit": times,
        "limit_name": "runs that pass",
        "step_id": step.step_id,
        "command": _command(step),
        "interpreter": interpreter,
        "host": host,
    }
    return reason, evidence


def advise_on_fixed(facts: Facts) -> str:
    """Return that nothing is left to do, and how to plan the goal anyway."""
    return f"Nothing: {facts.evidence.get('target_sha')} has it. If it has not, {AGAIN} with reproduce: warn."


def advise(facts: Facts) -> str:
    """Return advice to compare the two hosts, to name another commit, or to only warn."""
    command, host = facts.evidence.get("command", "the tests"), facts.evidence.get("host", "the host")
    return (
        f"Run `{command}` at {facts.plan.head.context.get('base_sha')} where it failed, and compare interpreter and "
        f"setup with those of {host} ({facts.evidence.get('interpreter')}). Then repair the host, name the commit that "
        f"fails, or {AGAIN} with reproduce: warn."
    )
