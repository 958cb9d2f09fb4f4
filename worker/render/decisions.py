"""The decisions about a plan in plain words with their values: revisions, refusals, halts and their reasons. Pure.

They come from the lines of its log, and from its halt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.times import rfc3339

MOST_TEXT = 600  # characters of one value

REVISED = MappingProxyType(
    {  # name of a revision -> its effect on the next attempt
        "add_context": "The next attempt gets a hint where to look.",
        "narrow_verification": "The first test that failed is run before the others: a wrong change fails sooner.",
        "narrow_files": "The next attempt looks first at the files that the failure names.",
        "narrow_focus": "The next attempt begins with one file and one test, and may change the same files.",
        "change_less": "The next attempt is asked to do less than the last one.",
        "double_time": "The verifications have twice their time.",
        "isolate": "A step before the next attempt runs the failing test alone, to see whether it fails by itself.",
        "syntax-check": "A step before the next attempt checks the syntax.",
        "type-check": "A step before the next attempt checks the types.",
        "auto-fix": "A step before the next attempt runs the linter with its automatic fixes.",
        "dependencies": "A step before the next attempt checks that the imports of the files exist.",
        "baseline": "A step before the next attempt checks whether this was red before the plan changed anything.",
        "tolerate_red_tests": "Tests that were red before the plan may fail: the next attempt is judged by the others.",
        "drop_red_checks": "A check that was red before the plan is not run any more.",
        "spare_parts": "A check of the whole that found something in other parts alone need not pass any more.",
        "mend": "A step before the next attempt changes the code again: the same code would fail in the same way.",
        "check_changed": "A step was added that checks the files which were changed.",
        "unfolding": "Steps were added to the plan.",
        "split": "The change is larger than one step may make it: steps were made for parts of it.",
        "risk_apart": "Some of the changed files are riskier than the step: they get a separate step.",
        "integrity": "The next attempt gets the reason for the refusal of the last one.",
        "setup_again": "A declared module is missing: the controller runs its setup again.",
        "misspelt_module": "The change misspells the name of a module that exists.",
        "own_module": "The change broke a module of the repository's own.",
        "holdout": "A step was added that is judged by held-out tests.",
        "land": "A step was added that lands the accepted changes on their target, or updates them to it.",
        "deliver": "A step was added that delivers the landed changes.",
    }
)
CAME_IN = MappingProxyType(
    {  # word in the log -> its kind and meaning
        "no change": ("refused", "A success was refused: the step has to change a file, and no file changed."),
        "output refused": ("refused", "A success was refused: the plan cannot use the answer."),
        "no place": ("refused", "An answer named no place that the goal allows. The planner asked again."),
        "needs": (
            "given",
            "An attempt asked for files that the goal allows: the next one may change them.",
        ),
        "approval over": ("clock", "No person approved the step in time."),
        "answer over": ("clock", "No answer to the question came in time."),
        "wall clock over": ("clock", "The plan's time was used up."),
        "delivery over": ("clock", "No controller took the delivery in time."),
        "outage": ("clock", "No worker looked at the plan for some time. The planner added that time to its limit."),
        "pause over": ("clock", "The plan's pause was over."),
    }
)
SAID = MappingProxyType(
    {  # fields in the log after the step of such a word
        "no change": ("attempt",),
        "output refused": ("attempt", "why"),
        "no place": ("attempt",),
        "needs": ("attempt", "files"),
    }
)
TITLES = MappingProxyType(
    {
        "revised": "Revised",
        "refused": "Refused",
        "halted": "Halted",
        "rejected": "Rejected",
        "command": "Command",
        "lapsed": "Lapsed",
        "given": "Given files",
        "released": "Handed back",
        "held": "Held",
        "clock": "By the clock",
    }
)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: its time, its kind, a sentence, the step that it is about, and the values."""

    at: str
    kind: str
    text: str
    step_id: str = ""
    values: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The kind of the decision, as one word."""
        return TITLES[self.kind]


def decisions_of(
    lines: Iterable[Mapping[str, Any]], halt: Mapping[str, Any] | None, ended: str | None
) -> list[Decision]:
    """Return the decisions about a plan, the newest first."""
    found = [each for line in lines for each in _decided(line)]
    if halt:
        found.append(_halted(halt, ended or (found[-1].at if found else "")))
    return found[::-1]


def _decided(line: Mapping[str, Any]) -> Iterator[Decision]:
    at = rfc3339(line["now"])
    for what, *said in line["in"]:
        if what == "command":
            yield _command(at, *said)
        elif what == "expired":
            yield Decision(at, "lapsed", f"Attempt {said[1]} ended without an outcome: {said[3]}.", said[0])
        elif what == "handed back":
            who = said[2] or "a controller that had not claimed it"
            yield Decision(
                at, "released", f"Attempt {said[1]} was handed back by {who}. It counts as no failure.", said[0]
            )
        elif what == "held":
            yield Decision(at, "held", f"Nothing starts: {said[0]}.")
        elif what in CAME_IN:
            kind, text = CAME_IN[what]
            step = said[0] if said and isinstance(said[0], str) else ""
            values = [(name, _brief(name, value)) for name, value in zip(SAID.get(what, ()), said[1:], strict=False)]
            yield Decision(at, kind, text, step, _values(values))
    yield from (_revised(at, each) for each in line.get("revisions", ()))


def _command(at: str, body: Mapping[str, Any], refusal: str | None = None) -> Decision:
    by = f" by {body['actor']}" if body.get("actor") else ""
    told = f"{body.get('command', 'a command')}{by}"
    values = _values([("why", refusal), ("reason", body.get("reason")), ("value", body.get("value"))])
    if refusal:
        return Decision(at, "refused", f"The command {told} was refused.", body.get("step_id") or "", values)
    return Decision(at, "command", f"{told[:1].upper()}{told[1:]} was obeyed.", body.get("step_id") or "", values)


def _revised(at: str, told: Mapping[str, Any]) -> Decision:
    rules = str(told.get("rule", "")).split(" + ")
    sentences = [REVISED.get(rule, f"The rule {rule} changed the step.") for rule in rules]
    if told.get("why"):
        sentences.append(_sentence(told["why"]))
    category, limit = told.get("category"), told.get("limit")
    nth = (
        f"failure {told['value']}, {limit} {'retry' if limit == 1 else 'retries'} allowed" if "value" in told else None
    )
    values = [("revision", told.get("revision")), ("because of", category), ("count", nth)]
    for name, change in (told.get("diff") or {}).items():
        values += _change(name, change)
    if told.get("unblock"):
        values.append(("to go on", told["unblock"]))
    return Decision(at, "revised", " ".join(sentences), str(told.get("step_id") or ""), _values(values))


def _change(name: str, change: Any) -> Iterator[tuple[str, Any]]:
    """Yield the change of one field by a revision, under the field's name: old and new value, or one value."""
    label = name.replace("_", " ")
    if isinstance(change, list) and len(change) == 2 and name not in ("added",):
        was, now = (_brief(name, each) for each in change)
        yield (label, f"from {was} to {now}" if was else now)
    else:
        yield (label, _brief(name, change))


def _brief(name: str, value: Any) -> str:
    if name == "verify_tools" and isinstance(value, list):
        return ", ".join(f"{each.get('tool')} ({each.get('timeout_s')} s)" for each in value if isinstance(each, dict))
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "" if value is None else str(value)


def _halted(halt: Mapping[str, Any], at: str) -> Decision:
    evidence = halt["evidence"]
    limit = evidence.get("limit")
    values = [
        ("rule", halt["rule"]),
        ("value", evidence.get("value")),
        ("limit", limit),
        ("counted", None if limit is None else str(evidence.get("limit_name") or "").replace("_", " ")),
        ("to go on", evidence.get("unblock")),
    ]
    if halt["rule"] == "rejected":
        return Decision(at, "rejected", f"The goal was rejected: {halt['reason']}.", "", _values(values))
    return Decision(at, "halted", _sentence(halt["reason"]), str(evidence.get("step_id") or ""), _values(values))


def _sentence(text: Any) -> str:
    """Return a text as a sentence; only its start and end change."""
    said = str(text).rstrip(". ")
    return f"{said[:1].upper()}{said[1:]}."


def _values(said: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return named values as text, truncated; values that are missing are left out."""
    written = ((name, value if isinstance(value, str) else "" if value is None else str(value)) for name, value in said)
    return tuple((name, text[:MOST_TEXT]) for name, text in written if text)
