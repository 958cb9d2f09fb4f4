"""The accepted attempts of a plan that delivers: recorded as they are done, listed for a landing and a delivery."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.base import Mode, RiskLevel
from tasks.features.delivery.answer import is_branch
from tasks.features.delivery.landing import Landed, note_verification
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import is_empty
from tasks.policy.pipeline import Judgement
from tasks.rules.risk import RISK
from tasks.text.fields import flatten
from tasks.text.json_in_prose import as_text
from tasks.text.secrets import fit_redacted, redact
from tasks.toolchain.languages import LANGUAGES, suffixes_of

PAGE = 8  # attempts in a note; fewer are written with every commit
MAX_CHECKS = 8  # that the text names
MAX_TOOLS, MAX_COMMAND, MAX_BY, MAX_WORDS, MAX_READ = 80, 200, 120, 200, 4096  # characters
MAX_OTHERS, MAX_OTHER = 5, 120  # files that an agent named and did not change, and characters of one
_DIGEST = re.compile(r"[\w:.+/=-]{1,200}", re.ASCII)
_CODE = suffixes_of(LANGUAGES)
_NAME = re.compile(r"(?<![\w./:@-])[\w.-]{1,100}(?:/[\w.-]{1,100}){0,20}(?<![.])")


def note_done(unit: UnitOfWork, seen: Judgement) -> None:
    """Record an accepted change, or a check that passed, for the delivery.

    A controller that does not report touched files may have changed some.
    """
    step, outcome, verified = seen.step, seen.outcome, seen.doubt is None and not seen.is_excused
    facts, kept = step.facts, unit.plan.delivery
    if unit.is_delivering:
        return
    note_verification(unit, seen)
    if facts["mode"] == Mode.TEST and verified and not facts["inserted_by"]:
        kept.checked = [*kept.checked, [step.step_id, facts["verify"][:MAX_COMMAND]]][-MAX_CHECKS:]
    if facts["mode"] != Mode.PATCH or is_empty(outcome):
        return
    digest = outcome.diff_hash if _DIGEST.fullmatch(outcome.diff_hash or "") else None
    tools = ", ".join(dict.fromkeys(tool["tool"] for tool in facts["verify_tools"])) if verified else ""
    created = len(outcome.created_files) if "created_files" in outcome.model_fields_set else None
    by = " ".join(filter(None, (outcome.agent, outcome.model, outcome.controller and f"on {outcome.controller}")))
    words = flatten(redact(as_text(outcome.output)[:MAX_READ]))
    others = _not_changed(words, outcome.touched_files)
    about = [
        facts["title"],
        tools[:MAX_TOOLS],
        facts["risk_level"],
        created,
        by[:MAX_BY],
        fit_redacted(words, MAX_WORDS),
        others,
    ]
    kept.accepted.append([step.step_id, step.status.attempt, digest, *about])
    kept.risk = max(kept.risk or RiskLevel.LOW, facts["risk_level"], key=tuple(RISK).index)
    if len(kept.accepted) == PAGE:
        unit.keep_note(page_of(kept.pages), kept.accepted)
        kept.pages, kept.accepted = kept.pages + 1, []
    unit.plan.dirty.add("live")


def share_input(asked: Mapping[str, Any], entries: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Return the input that a landing and a delivery share: accepted attempts, and the files that they may change."""
    return {
        "accepted": [_row(*entry) for entry in entries],
        "allowed": asked["allowed"],
        "excluded": asked["excluded"],
        **{name: asked[name] for name in ("forbidden", "onto", "again") if name in asked},
    }


def rebase(unit: UnitOfWork, landed: Landed) -> None:
    """Store the new base of the plan's changes, and their digests on it. Raises NeedsSteps if a note is missing."""
    kept = unit.plan.delivery
    kept.target = landed.target if is_branch(landed.target) else ""
    unit.plan.dirty.add("live")
    if landed.digests is None:
        return
    kept.base = landed.begin or landed.target_sha
    for number in range(kept.pages):
        unit.keep_note(page_of(number), _moved(unit.note(page_of(number)), landed.digests))
    kept.accepted = _moved(kept.accepted, landed.digests)


def page_of(number: int) -> str:
    """Name the note of a full page of accepted attempts."""
    return f"accepted {number}"


def _moved(entries: Iterable[Sequence[Any]], digests: Mapping[str, str]) -> list[Any]:
    """Replace the digests of accepted attempts by those on the new base; None for a change that is empty there."""
    return [[*entry[:2], digests.get(entry[0]), *entry[3:]] for entry in entries]


def _not_changed(words: str, touched: Sequence[str]) -> list[str]:
    """Return the files that an agent's words name and its change does not have."""
    named = dict.fromkeys(found[0].removeprefix("./") for found in _NAME.finditer(words))
    return [
        name
        for name in named
        if len(name) <= MAX_OTHER
        and name.endswith(_CODE)
        and not any(path == name or path.endswith(f"/{name}") for path in touched)
    ][:MAX_OTHERS]


def _row(
    step_id: str,
    attempt: int,
    digest: str | None,
    _title: str,
    _tools: str,
    risk: RiskLevel,
    created: int | None,
    *_of_text: object,
) -> dict[str, Any]:
    """Return an accepted attempt as input of a delivery, with the limits that its commit has to keep."""
    limits: dict[str, Any] = {"max_files": RISK[RiskLevel(risk)].max_files, "max_risk": risk}
    limits |= {} if created is None else {"created": created}
    return {"step_id": step_id, "attempt": attempt, "diff_hash": digest, **limits}
