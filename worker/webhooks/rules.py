"""Decides about an event of a webhook: a goal, the end of an older goal, or nothing, with the reason.

These functions are pure: they read only their arguments.

A payload provides text, checked values, and keys that are digested. Files, commands, limits, approvals, queues and
tenants come only from the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tasks.text.fields import fit, last_lines, one_line, several_lines
from tasks.text.sanitize import TOKEN
from worker.webhooks import expressions
from worker.webhooks.events import Event
from worker.webhooks.expressions import Missing, Scalar
from worker.webhooks.sources_file import COMMIT, NO_COMMIT, Allowance, Rule, Scheme, Source

MAX_SENTENCE, MAX_CONSTRAINT, MAX_LOG, MAX_KEY = 4000, 1000, 32_000, 2000
OTHER_KEYS = ("language", "test_command", "workdir")  # keys of the context that the rule sets


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event makes no goal; `reason` begins with a code, which is counted."""

    reason: str

    @property
    def code(self) -> str:
        """The first word of the reason."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A goal without its id. If `goal` is None: the end of the older goal with the same key.

    `failures_of` names the kind and the number of the failed run that the forge is asked about.
    """

    rule: Rule
    goal: dict[str, Any] | None
    coalesce: str | None = None
    supersedes: str | None = None
    order: Scalar | None = None
    failures_of: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asks_forge(self) -> bool:
        """Whether the forge has to be asked before the goal is complete."""
        return self.goal is not None and (self.rule.files is not None or bool(self.failures_of))


def decide(source: Source, event: Event) -> Wanted | Ignored:
    """Return the decision about an event of `source`: the first rule that accepts it counts."""
    found = Ignored(
        f"no_rule: no rule is on {one_line(event.name, 100)!r}" if event.name else "no_rule: it has no name"
    )
    for rule in source.rule:
        if rule.on != event.name:
            continue
        made = _by_rule(source, rule, event)
        if isinstance(made, Wanted):
            return made
        if found.code in ("no_rule", "when"):
            found = made
    return found


def _by_rule(source: Source, rule: Rule, event: Event) -> Wanted | Ignored:
    is_solved = rule.resolves is not None and expressions.holds(rule.resolves, event.payload)
    if not is_solved and rule.when is not None and not expressions.holds(rule.when, event.payload):
        return Ignored("when: no rule's condition holds")
    if kept_out := next(_guards(source, rule, event), None):
        return Ignored(kept_out)
    try:
        repo = _repository(rule, event) if rule.repos else None
        if rule.repos and repo is None:  # also for events that end an older goal
            raise _Unfit("repository: it is none of the rule's repos")
        keys = _keys(rule, event.payload)
        if is_solved:
            return Wanted(rule, None, **keys)
        goal = _goal(rule, event, repo)
        is_asked = rule.failures == "forge" or (rule.failures is None and source.asks_for_failures)
        return Wanted(rule, goal, **keys, failures_of=_failures_of(event) if is_asked else {})
    except (Missing, _Unfit) as why:
        return Ignored(str(why))


class _Unfit(Exception):
    """A value of the payload is not valid for a goal; the message is the reason."""


def _guards(source: Source, rule: Rule, event: Event) -> Iterator[str]:
    """Yield the reasons to ignore an event; a rule can allow some of them with `allow`."""
    allowed = frozenset(rule.allow)
    if rule.repos and not rule.repo and _repository(rule, event) is None:
        yield "repository: it is none of the rule's repos"
    if Allowance.FORKS not in allowed and event.is_of_fork:
        yield "fork: what ran is of another repository"
    if Allowance.OWN_BRANCHES not in allowed and any(
        fnmatchcase(branch, pattern) for branch in event.branches for pattern in source.own_branches
    ):
        yield "own_branch: a plan does not feed itself"
    if Allowance.OWN_APP not in allowed and _is_ours(source, event):
        yield "own_app: a plan does not feed itself"
    if comment := event.comment:
        if Allowance.EDITED not in allowed and not comment.is_created:
            yield "not_created: only new comments count"
        if not comment.is_of_person or not set(comment.people) & set(rule.from_ or ("OWNER", "MEMBER")):
            yield "from: its author may not ask"
    elif rule.from_ and event.author not in rule.from_:
        yield "from: its author may not ask"


def _is_ours(source: Source, event: Event) -> bool:
    """Return whether our own app or user caused the event, or a planner wrote it."""
    ours = (source.app.casefold(), f"{source.app}[bot]".casefold()) if source.app else ()
    return event.is_own_status or any(actor.casefold() in ours for actor in event.actors)


def _repository(rule: Rule, event: Event) -> str | None:
    """Return the event's repository as the rule spells it; None if the rule does not have it. Raises Missing."""
    if rule.repo:
        named = str(expressions.scalar(rule.repo, event.payload))
    elif event.scheme is Scheme.STANDARD and len(rule.repos) == 1:
        return rule.repos[0]
    else:
        named = event.repository
    return next((repo for repo in rule.repos if repo.casefold() == named.casefold()), None)


def _keys(rule: Rule, payload: Any) -> dict[str, Any]:
    """Return the keys that relate goals (`coalesce`, `supersedes`), and the event's order. Raises Missing."""
    found = {name: getattr(rule, name) for name in ("coalesce", "supersedes")}
    keys = {
        name: None if text is None else expressions.rendered(text, payload)[:MAX_KEY] for name, text in found.items()
    }
    order = None if rule.order is None else expressions.scalar(rule.order, payload)
    return {**keys, "order": order[:MAX_KEY] if isinstance(order, str) else order}


def _goal(rule: Rule, event: Event, repo: str | None) -> dict[str, Any]:
    """Return the goal's body; only its text comes from the payload. Raises Missing or _Unfit."""
    payload = event.payload
    context: dict[str, Any] = {}
    if rule.base_sha is not None:
        context["base_sha"] = _commit(expressions.rendered(rule.base_sha, payload))
    if rule.failure_log is not None:
        log = expressions.prose(rule.failure_log, payload)
        context["failure_log"] = fit(last_lines(log, MAX_LOG), MAX_LOG, several_lines)
    body = goal_with(rule, repo, _sentence(rule, event), context)
    if rule.constraints:
        texts = [fit(expressions.prose(each, payload), MAX_CONSTRAINT) for each in rule.constraints]
        body["constraints"] = [text for text in texts if text]
    return body


def goal_with(rule: Rule, repo: str | None, sentence: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return the goal of a rule; its files, limits and approvals come only from the rule."""
    context |= {key: value for key in OTHER_KEYS if (value := getattr(rule, key)) is not None}
    context |= {"repo": repo} if repo else {}
    body: dict[str, Any] = {"goal": sentence, "tenant": rule.tenant, "queue": rule.queue}
    if context:
        body["context"] = context
    fields: dict[str, Any] = {
        "allowed_files": list(rule.allowed_files),
        "approvals": [str(each) for each in rule.approvals],
        "drafter": rule.drafter,
        "limits": rule.limits.model_dump(exclude_none=True) if rule.limits else None,
        "callback": rule.callback,
        "delivery": rule.delivery.model_dump() if rule.delivery else None,
    }
    return body | {key: value for key, value in fields.items() if value} | ({} if rule.mend else {"mend": False})


def _sentence(rule: Rule, event: Event) -> str:
    """Return the goal's sentence. Raises Missing or _Unfit."""
    if rule.command is not None:
        first, *rest = (event.comment.text if event.comment else "").split(maxsplit=1) or [""]
        if first != rule.command:
            raise _Unfit(f"no_command: the comment does not begin with {rule.command}")
        text = "".join(rest)
    else:
        text = expressions.prose(rule.goal or "", event.payload)
    sentence = fit(text, MAX_SENTENCE, several_lines)
    if not re.search(r"\w", sentence.replace(TOKEN, "")):
        raise _Unfit("empty: nothing is left of the goal's text")
    return sentence


def _commit(text: str) -> str:
    """Return `text` as the id of a commit, in lower case. Raises _Unfit for any other text."""
    commit = text.strip().lower()
    if not COMMIT.fullmatch(commit):
        raise _Unfit(f"base_sha: it is no id of a commit: {NO_COMMIT}")
    return commit


def _failures_of(event: Event) -> dict[str, Any]:
    """Return the numbers of the failed run by their kind, for the question to the forge; empty if there is none."""
    paths = {
        "workflow_run": {"run": "workflow_run.id", "suite": "workflow_run.check_suite_id"},
        "check_suite": {"suite": "check_suite.id"},
        "check_run": {"check": "check_run.id"},
        "pipeline": {"pipeline": "object_attributes.id"},
    }.get(event.name, {})
    found = {name: event.at(path) for name, path in paths.items()}
    return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}
