"""The plan cache: a goal that equals an earlier one gets the drafter's answer of that time.

The cache stores the answer, not the plan. The answer is judged again like any other, and becomes steps of the new goal.
Two goals are equal if their drafter would get the same data; in the sentence only blanks may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from schemas import codec
from schemas.goal import Goal
from tasks.base.policy_version import POLICY_VERSION
from tasks.handlers import goals
from tasks.memory.alike import results_for_drafters
from tasks.plan.cached_draft import DRAFT_NOTE, HIT, PUT, may_keep, read_draft
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.permission import expand_allowed
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, Phase, Setting
from tasks.strategies.drafting.cycle import QUEUE
from tasks.text.sanitize import TOKEN
from tasks.toolchain.catalogue import Catalogue, keep_contracts

# Parts of a goal: the sentence, and parts that change neither a drafter's input nor the value of its answer.
APART: dict[str, Any] = {
    **dict.fromkeys(("goal", "goal_id", "tenant", "limits", "approvals", "queue", "drafter", "mend"), True),
    **dict.fromkeys(("delivery", "retry_of", "from_", "callback", "traceparent", "steps"), True),
    "context": {"base_sha", "files", "definitions", "instructions"},
}


@dataclass(frozen=True, slots=True)
class CacheQuestion:
    """A goal that needs a drafter, and the `field` that stores the answer to such goals."""

    goal: Goal
    catalogue: Catalogue
    setting: Setting
    field: str

    def answer(self, raw: bytes | None, now: int, kept_s: int) -> Draft | None:
        """Return a draft from the stored answer; None if it is older than `kept_s` (s) or makes no plan by itself."""
        found = read_draft(raw or b"")
        if found is None or found.at < now - 1000 * kept_s:
            return None
        drafter = "cache" if self.setting.drafter == QUEUE else self.setting.drafter  # no step asks a drafter
        setting = replace(self.setting, drafter=drafter, drafted=(Drafted(found.output),), cached_from=found.plan_id)
        made = goals.plan(self.goal, self.catalogue, setting)
        if not isinstance(made, Draft) or not self._is_of_use(setting):
            return None
        phase = Phase("cached", f"No drafter is asked: the draft is that of {found.plan_id}, whose goal is the same.")
        return replace(made, cache=(HIT, self.field, kept_s, found.plan_id), phases=(phase, *made.phases))

    def keep(self, made: Draft, drafted: Sequence[Drafted], kept_s: int) -> Draft:
        """Return the draft, marked so that its plan stores the drafter's answer in the cache when it completes.

        This is the last of the `drafted` answers; without one, the answer of the plan's first step. If the answer may
        not be cached, the draft is returned unchanged.
        """
        note = {"tenant": self.goal.tenant, "repo": self.goal.context.repo, "drafter": self.setting.drafter}
        note |= {"goal": self.goal.goal, "output": drafted[-1].output if drafted else None}
        said = replace(self.setting, drafted=tuple(drafted[-1:]))
        if drafted and not (may_keep(note["output"]) and self._is_of_use(said)):
            return made
        return replace(made, cache=(PUT, self.field, kept_s), notes={DRAFT_NOTE: note})

    def _is_of_use(self, setting: Setting) -> bool:
        """Return whether the last answer alone makes a plan, without another answer or a template."""
        strict = replace(setting, options={**setting.options, "fallback": "reject", "max_attempts": 1})
        return isinstance(goals.plan(self.goal, self.catalogue, strict), Draft)


def question(goal: Goal, catalogue: Catalogue, setting: Setting, answer: Answer, drafter: str) -> CacheQuestion | None:
    """Return the question for the cache if `answer` needs a drafter; `drafter` is its name, with its command.

    None if the cache does not apply: no drafter is needed, there is no repository, or the sanitizer found an attack.
    """
    prompt = answer.prompt if isinstance(answer, Consult) else None
    if isinstance(answer, Draft) and setting.drafter == QUEUE and "template" in (answer.state or {}):
        prompt = str((answer.state or {}).get("prompt"))  # of the step that asks, which has a template as its fallback
    if prompt is None or TOKEN in prompt or not goal.context.repo or goal.steps is not None:
        return None
    if clean_goal(goal).findings:
        return None
    files = expand_allowed(goal.allowed_files, goal.context.files, setting.forbidden).files
    body = goal.model_dump(mode="json", exclude=APART, exclude_defaults=True)
    rules = [POLICY_VERSION, setting.policy.digest, setting.forbidden.pattern.pattern, keep_contracts(catalogue, None)]
    context = codec.canonical(
        [body, list(files), drafter, dict(setting.options), results_for_drafters(setting.memory), *rules]
    )
    sentence = " ".join(goal.goal.split()).encode(errors="surrogatepass")
    return CacheQuestion(goal, catalogue, setting, f"{_digest(context)} {_digest(sentence)}")


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
