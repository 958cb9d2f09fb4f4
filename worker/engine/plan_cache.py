"""Answers goals from the plan cache before a drafter is asked, and says what of an answer is to be kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis import Redis

from schemas.goal import Goal
from tasks.handlers import goals
from tasks.plan.cached_draft import CACHE, DRAFT_NOTE, HIT, PUT
from tasks.plan.changeset import kept_name
from tasks.rules import plan_cache
from tasks.rules.plan_cache import CachedDraft
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, Phase, Setting
from tasks.toolchain.catalogue import Catalogue
from worker.drafters.consulting import QUEUE
from worker.store.keys import Partition

FROM_CACHE = "cache"  # the drafter of a task whose draft a controller would have made
NO_FALLBACK = {"fallback": "reject", "max_attempts": 1}  # an answer of no use is no plan


@dataclass(frozen=True, slots=True)
class Asked:
    """A goal with what its drafter is told, and what that hangs on beside the goal's sentence."""

    goal: Goal
    setting: Setting
    context: str

    @property
    def field(self) -> str:
        """Where its answer is kept."""
        return plan_cache.field_of(self.context, self.goal.goal)


@dataclass(frozen=True, slots=True)
class PlanCache:
    """The drafts of completed plans; `kept_s` is for how long one answers, in seconds, 0 for never."""

    client: Redis
    catalogue: Catalogue
    kept_s: int

    def asked(self, goal: Goal, setting: Setting, answer: Answer, drafter: str) -> Asked | None:
        """Say what is asked where `answer` asks a drafter; None where the cache has no part in that.

        `drafter` is who that is, and as what it is run.
        """
        prompt = _prompt_of(answer, setting)
        if not self.kept_s or prompt is None or not plan_cache.may_use(goal, prompt):
            return None
        return Asked(goal, setting, plan_cache.context_of(goal, self.catalogue, setting, drafter))

    def answer(self, partition: Partition, asked: Asked) -> Draft | None:
        """Answer a goal from the cache; None where it has nothing that is of use now."""
        found = self._find(partition, asked)
        if not found:
            return None
        drafter = FROM_CACHE if asked.setting.drafter == QUEUE else asked.setting.drafter
        said = replace(asked.setting, drafter=drafter, drafted=(Drafted(found.output),), cached_from=found.plan_id)
        if not self._is_of_use(asked.goal, said):
            return None
        made = goals.plan(asked.goal, self.catalogue, said)
        if not isinstance(made, Draft):
            return None
        told = Phase("cached", f"No drafter is asked: the draft is that of {found.plan_id}, whose goal is the same.")
        where = (HIT, found.field, self.kept_s, found.plan_id)
        return replace(made, cache=where, phases=(told, *made.phases))

    def keep(self, asked: Asked, made: Draft, drafted: Sequence[Drafted]) -> Draft:
        """Have a plan keep the answer that it was made of, for the cache; one that was not made of the last, not."""
        if asked.setting.drafter == QUEUE:
            return self._to_put(asked, made)
        last = drafted[-1] if drafted else Drafted(error="nobody was asked")
        if last.error is not None or not plan_cache.may_keep(last.output):
            return made
        if not self._is_of_use(asked.goal, replace(asked.setting, drafted=(last,))):
            return made
        return self._to_put(asked, made, output=last.output)

    def _to_put(self, asked: Asked, made: Draft, **answer: Any) -> Draft:
        about = {"tenant": asked.goal.tenant, "repo": asked.goal.context.repo}
        note = {"goal": asked.goal.goal, "drafter": asked.setting.drafter, **about, **answer}
        return replace(made, cache=(PUT, asked.field, self.kept_s), notes={DRAFT_NOTE: note})

    def _is_of_use(self, goal: Goal, setting: Setting) -> bool:
        """Whether the last answer makes a plan by itself, and no template stands in for it."""
        strict = replace(setting, options={**setting.options, **NO_FALLBACK})
        return isinstance(goals.plan(goal, self.catalogue, strict), Draft)

    def _find(self, partition: Partition, asked: Asked) -> CachedDraft | None:
        name = kept_name(CACHE, asked.goal.tenant, asked.goal.context.repo)
        if not name:
            return None
        raw: Any = self.client.hget(partition.kept(name), asked.field)
        found = plan_cache.read_entry(asked.field, raw) if raw else None
        since = time.time_ns() // 1_000_000 - 1000 * self.kept_s
        return found if found and found.at >= since else None


def _prompt_of(answer: Answer, setting: Setting) -> str | None:
    """Return what a drafter is told; None where nobody is asked, or by a step that the cache cannot stand in for."""
    if isinstance(answer, Consult):
        return answer.prompt
    if setting.drafter == QUEUE and isinstance(answer, Draft) and answer.state and "template" in answer.state:
        return str(answer.state.get("prompt") or "")
    return None
