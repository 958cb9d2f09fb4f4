"""Handles verifications that could not run: they prove nothing about the code, and count as no failure.

At the commit that the plan began with, no change can be the cause. Later, a change may be the cause. Then the host or
project is blamed only if the controller reports it, or if the tool could not run at that commit either. The plan hands
such an attempt back. It halts, with advice, after three claimants, or if one claimant has the same trouble twice. An
added check halts nothing: the baseline drops it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.base import FailureCategory as C
from schemas.outcome import Outcome
from schemas.step import AtBase
from tasks.base.errors import LEASES, NeedsSteps
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt, waits
from tasks.policy.advice_facts import AGAIN, Facts
from tasks.policy.claimant import claimed_by, describe_release
from tasks.policy.halt_rules import AT_ONCE
from tasks.policy.outcome_verdict import STOPPED, folder_untold
from tasks.policy.pipeline import JUDGES, Feature, Judgement, always
from tasks.policy.pre_steps import is_baseline, runs_at_base
from tasks.text.fields import flatten
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.could_not_run import NOT_FOUND, runs_script, why_not_run

RULE = "cannot_verify"
CLAIMANTS, AGAIN_BY_ONE = 3, 2
HERE = "."


class NotRun(NamedTuple):
    """A tool of a step that could not run, with the reason."""

    tool: Mapping[str, Any]
    reason: str
    is_missing: bool = False  # its program

    @property
    def place(self) -> list[str]:
        """The tool and its folder; two attempts with the same place had the same trouble."""
        return [self.tool["tool"], self.tool.get("cwd") or HERE]


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Hand back a step whose verification could not run, or halt the plan; else the failure counts by its category."""
    step, kept = seen.step, unit.plan.cannot_verify
    untold = _find_untold(seen)
    found = untold or _find(unit, seen)
    if found is None or not (untold or _is_excusable(unit, seen, found)):
        kept.forget_step(step.step_id)
        if found and seen.failure and seen.failure["category"] == C.UNKNOWN:
            seen.failure = {**seen.failure, "category": C.TEST_REGRESSION.value}
        return False
    if untold and not unit.snapshot.knows_leases:
        raise NeedsSteps(frozenset({LEASES}))
    back = claimed_by(unit, step, seen.attempt, found.reason)
    before = kept.told.get(step.step_id, [])
    told = [*before, [seen.attempt.attempt, back.controller, back.reason, unit.snapshot.now, *found.place]]
    met = _met(told)
    if met and is_baseline(step.facts) and not found.is_missing:  # it ran after the change: then the failure counts
        return False
    kept.told[step.step_id] = told
    if runs_at_base(step.facts) and not untold and found.place not in kept.at_base:
        kept.at_base.append(found.place)
    unit.plan.dirty.add("live")
    seen.failure = None
    if met:
        reason, evidence = _explain(step, found, told)
        halt.halt(unit, "cannot_verify", reason, {**evidence, **met, **({"untold": True} if untold else {})}, step)
        return True
    unit.move_step(step, "ACTIVE", "released", f"{C.CANNOT_VERIFY}: {back.reason}")
    waits.pause_longer(unit, step, len(told))
    return True


def _find_untold(seen: Judgement) -> NotRun | None:
    """Return a tool that has to run below the root, if a failed attempt does not report its folder; else None.

    Without the folder the attempt proves nothing.
    """
    outcome, facts = seen.outcome, seen.step.facts
    why = None if outcome.success else folder_untold(facts, outcome)
    if why is None or (seen.failure and seen.failure["category"] in AT_ONCE):
        return None
    return NotRun(next(tool for tool in facts["verify_tools"] if tool.get("cwd", HERE) != HERE), why)


def _find(unit: UnitOfWork, seen: Judgement) -> NotRun | None:
    """Return the tool of a failed attempt that could not run, by the controller's report or by its receipt."""
    outcome, tools = seen.outcome, seen.step.facts["verify_tools"]
    if outcome.success or not tools or (seen.failure and seen.failure["category"] in {*AT_ONCE, C.TEST_TIMEOUT}):
        return None
    receipts = outcome.verify or ()
    last = tools[len(receipts) - 1] if receipts and len(receipts) <= len(tools) else None
    if said := outcome.cannot_verify:
        tool = last if last and last["tool"] == said.tool else next((e for e in tools if e["tool"] == said.tool), None)
        is_missing = not receipts or receipts[-1].exit_code in NOT_FOUND
        return NotRun(tool, said.reason or "it could not run", is_missing) if tool else None
    if last is None or receipts[-1].tool != last["tool"] or receipts[-1].exit_code == STOPPED:
        return None
    if receipts[-1].exit_code < 0 or outcome.failing_tests:  # it was killed, or ran
        return None
    contract = catalogue_of(unit.plan.head.tools).contracts.get(last["tool"])
    why = contract and why_not_run(contract, receipts[-1].exit_code, _printed(outcome))
    return NotRun(last, why, receipts[-1].exit_code in NOT_FOUND) if why else None


def _printed(outcome: Outcome) -> str:
    evidence = outcome.failure_evidence
    return (evidence and evidence.stack_trace_head) or outcome.error_message or ""


def _is_excusable(unit: UnitOfWork, seen: Judgement, found: NotRun) -> bool:
    """Return whether the host or the project, and not the attempt's change, kept the tool from running."""
    facts, outcome = seen.step.facts, seen.outcome
    if runs_at_base(facts):
        is_wanted = found.tool["tool"] not in facts["quick_checks"]
        category = seen.failure["category"] if seen.failure else ""
        if AtBase.UNLOADED in facts["at_base"] and category in (C.IMPORT_ERROR, C.COMPILATION_ERROR):
            return False  # the goal is about that
        return is_wanted and outcome.verified_at == unit.plan.head.context.get("base_sha")
    contract = catalogue_of(unit.plan.head.tools).contracts.get(found.tool["tool"])
    codes = {each.exit_code for each in outcome.verify or () if each.tool == found.tool["tool"]}
    if contract and runs_script(contract) and not codes.isdisjoint(NOT_FOUND):
        return False
    if outcome.cannot_verify is not None:
        return True
    return found.place in unit.plan.cannot_verify.at_base and seen.step.step_id in unit.snapshot.leases


def _met(told: list[list[Any]]) -> dict[str, Any] | None:
    """Return the limit that the attempts in `told` reach, as evidence of a halt; None if they reach none."""
    (*before, (_, who, _, _, *place)) = told
    again = [each for each in before if each[1] == who and each[4:] == place]
    claimants = len({each[1] for each in told})
    if again:
        return {"value": len(again) + 1, "limit": AGAIN_BY_ONE, "limit_name": "times by one claimant"}
    if claimants >= CLAIMANTS:
        return {"value": claimants, "limit": CLAIMANTS, "limit_name": "claimants"}
    return None


def _explain(step: Step, found: NotRun, told: list[list[Any]]) -> tuple[str, dict[str, Any]]:
    name, folder = found.place
    hosts = list(dict.fromkeys(each[1] for each in told if each[1]))
    command = shlex.join(found.tool["argv"])
    where = "the repository's root" if folder == HERE else folder
    reason = f"{name} could not run in {where} ({', '.join(hosts) or 'nobody claimed it'}): {flatten(found.reason)}"
    evidence = {
        "step_id": step.step_id,
        "tool": name,
        "program": found.tool["argv"][0],
        "cwd": folder,
        "command": command,
        "hosts": hosts,
        "released": [describe_release(step.step_id, attempt, who, why, at) for attempt, who, why, at, *_ in told],
    }
    return reason, evidence


def advise(facts: Facts) -> str:
    """Return advice on how to make the verification run on the hosts of controllers."""
    if facts.evidence.get("untold"):
        return f"Have controllers run each tool in its `cwd`, and report it in `verify` of outcomes. Then {AGAIN}."
    program, hosts = facts.evidence.get("program", "the tool"), ", ".join(facts.evidence.get("hosts", ()))
    command, folder = facts.evidence.get("command", "the verification"), facts.evidence.get("cwd", HERE)
    return (
        f"Make `{command}` run in {folder} on {hosts or 'the hosts'}: install {program} there, or have the controller "
        "prepare each clone (--setup, or `setup` of the repositories file). If another command or folder verifies the "
        f"project, name it (--test-command, --workdir). Then {AGAIN}."
    )


FEATURE = Feature(
    RULE,
    (JUDGES.row(judge),),
    advice={RULE: advise},
    is_idle=always,
)
