"""The plan cache: what a drafter answered for a plan that was completed answers a goal which asks the same again.

Kept is the answer, not the plan: it is judged again like any answer, and becomes steps of the goal at hand. Two goals
ask the same where all that their drafter is told is the same; of the sentence only the blanks between words may differ.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from schemas import codec
from schemas.goal import Goal
from tasks.base.policy_version import POLICY_VERSION
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.strategy import Setting
from tasks.text.json_in_prose import as_text
from tasks.text.paths import expand_globs
from tasks.text.sanitize import TOKEN, sanitize
from tasks.toolchain.catalogue import Catalogue, keep_contracts

KEPT_S = 7 * 86_400  # unless a setting says otherwise
MAX_BYTES = 64 * 1024  # of an answer
# Of a goal: the sentence, and what changes neither what a drafter is told nor what its answer is worth.
APART: dict[str, Any] = {
    **dict.fromkeys(("goal", "goal_id", "tenant", "limits", "approvals", "queue", "drafter", "mend"), True),
    **dict.fromkeys(("delivery", "retry_of", "callback", "traceparent", "steps"), True),
    "context": {"base_sha", "files"},
}


class CachedDraft(NamedTuple):
    """An answer that is kept: of which plan, for which sentence, since when (ms)."""

    field: str
    plan_id: str
    goal: str
    drafter: str
    at: int
    output: Any


def may_use(goal: Goal, prompt: str) -> bool:
    """Whether a goal may be answered from the cache, and kept in it: never where something was taken out of a text."""
    return bool(goal.context.repo) and goal.steps is None and TOKEN not in prompt and not clean_goal(goal).findings


def may_keep(output: Any) -> bool:
    """Whether an answer may be kept: it is not too long, and nothing has to be taken out of it."""
    text = as_text(output)
    return len(text.encode(errors="replace")) <= MAX_BYTES and not sanitize(text).findings


def context_of(goal: Goal, catalogue: Catalogue, setting: Setting, drafter: str) -> str:
    """Name all that an answer hangs on beside the goal's sentence; `drafter` says who that is, and as what it is run.

    The manifests and the test command are part of it, by which a repository is known; the commit is not.
    """
    files = expand_globs(goal.allowed_files, goal.context.files, forbidden=setting.forbidden).files
    body = goal.model_dump(mode="json", exclude=APART, exclude_defaults=True)
    rules = [POLICY_VERSION, setting.policy.digest, setting.forbidden.pattern.pattern, keep_contracts(catalogue, None)]
    return _digest(codec.canonical([body, list(files), drafter, dict(setting.options), *rules]))


def field_of(context: str, sentence: str) -> str:
    """Name the place of a goal's answer among those of its repository."""
    words = " ".join(sentence.split())
    return f"{context} {_digest(words.encode(errors='surrogatepass'))}"


def read_entry(field: str, raw: bytes) -> CachedDraft | None:
    """Read what is kept at a place; None where that is none of ours."""
    try:
        record = codec.loads(raw)
        texts = record["plan_id"], record["goal"], record["drafter"]
        if not (all(isinstance(text, str) for text in texts) and type(record["at"]) is int):
            return None
        return CachedDraft(field, *texts, record["at"], record["output"])
    except (ValueError, LookupError, TypeError):
        return None


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
