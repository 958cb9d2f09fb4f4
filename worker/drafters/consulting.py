"""Chooses the drafter of a goal and asks it, at most once for each question even if a worker dies in between."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas import codec
from schemas.base import GoalKind
from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.rules.strategy import Consult, Drafted, Rejected, Setting
from tasks.rules.validation import reject
from tasks.text.fields import fit
from worker.drafters import drafter_of
from worker.drafters.artifacts import Artifacts
from worker.drafters.base import STOPPED, Drafter, Stop, estimate, secrets_of
from worker.settings.settings import Settings
from worker.store.keys import Partition
from worker.telemetry import metrics, tracing
from worker.telemetry.metrics import HERE
from worker.telemetry.tracing import SpanKind

GRACE_S = 60.0  # for a worker that takes the goal over, beyond the time of every question
log = logging.getLogger("planner.drafters")

KEPT_S = 7 * 86_400
LOST = "the worker that asked died"
TRIES = 10  # to record a paid answer
PAUSE_S = 1.0


class Consulting:
    """Asks drafters on behalf of goals. One per process; not for several threads at once."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self.drafters: dict[str, Drafter] = {}  # by name, each created with its first question

    @property
    def patience_ms(self) -> int:
        """Maximum time that a plan waits for its drafter, in ms."""
        here = self._settings
        longest = max(here.llm_timeout_s, here.cli_timeout_s, here.planning_timeout_seconds)
        questions = here.planning_max_attempts + here.planning_trajectory_summaries
        return int(1000 * (longest * questions + GRACE_S))

    def model(self, drafter: str) -> str:
        """Return the model of `drafter`, or its own name if no setting names a model."""
        return self._settings.llm_model or drafter if drafter == "http" else drafter

    def setting(self, goal: Goal) -> Setting | Rejected:
        """Return the drafter and options for `goal`, or Rejected, as `setting_of` does."""
        return setting_of(goal, self._settings)

    def may_ask(self, goal: Goal) -> bool:
        """Return whether `goal` has a drafter that a worker asks."""
        setting = self.setting(goal)
        return isinstance(setting, Setting) and setting.drafter not in (NONE, QUEUE)

    def identity(self, drafter: str) -> str:
        """Return the identity of `drafter` with its configuration: another model or command drafts differently."""
        here = self._settings
        run_as: dict[str, tuple[object, ...]] = {
            "http": (here.llm_model, here.llm_base_url),
            "cli": (here.cli_command, here.cli_output, here.cli_working_dir),
            "backend": (here.planning_backend or (here.planning_codex_bin, here.planning_codex_profile),),
        }
        return " ".join(map(str, (drafter, *run_as.get(drafter, ()))))

    def ask(
        self,
        drafter: str,
        partition: Partition,
        plan_id: str,
        number: int,
        question: Consult,
        stop: Callable[[], bool],
    ) -> Drafted:
        """Ask the numbered question, or return its recorded answer."""
        if drafter not in self.drafters:
            made = drafter_of(self._settings, drafter)
            assert made is not None  # noqa: S101 (no strategy consults `none` or `queue`)
            self.drafters[drafter] = made
        here, artifacts = self._settings, None
        if here.planning_debug_dir:
            validation = question.validation_mode or here.planning_validation_mode
            modes = {"validation": validation, "schema": schema_mode(here, drafter, question)}
            artifacts = Artifacts(here.planning_debug_dir, modes, secrets_of(here))
        recorded = RecordedDrafter(self._client, partition, self.drafters[drafter], artifacts, drafter)
        model = here.llm_model if drafter == "http" and here.llm_model else ""
        about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model} if model else {}
        about = about or {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": drafter}
        with tracing.span(f"chat {model}" if model else f"invoke_agent {drafter}", SpanKind.CLIENT, attributes=about):
            said = recorded.ask(plan_id, number, question, stop)
            tracing.add({"planner.tokens": said.tokens, "planner.answered": said.error is None})
            return said


NONE = "none"
QUEUE = "queue"
USUAL = {GoalKind.TASK: NONE, GoalKind.CAMPAIGN: QUEUE, GoalKind.EVOLUTION: QUEUE}  # the kinds that can use one


def setting_of(goal: Goal, settings: Settings) -> Setting | Rejected:
    """Return the drafter and options for `goal`; Rejected if the goal may not have the drafter that it names."""
    drafter = choose(goal.kind, goal.drafter, settings)
    if isinstance(drafter, FieldError):
        return reject(drafter.code, (drafter,))
    return Setting(drafter=drafter, options=settings.planning, forbidden=settings.forbidden)


def choose(kind: GoalKind, asked: str | None, settings: Settings) -> str | FieldError:
    """Return the drafter of a goal of `kind`, or why it cannot have one.

    It is the goal's choice among the enabled ones, else the kind's default.
    """
    if kind not in USUAL:
        return NONE if asked in (None, NONE) else _refusal(f"A goal of the kind {kind} is planned without a drafter")
    name = asked or settings.drafter or USUAL[kind]
    enabled = (NONE, *(each for each in settings.drafters if each != NONE))
    if name in enabled:
        return name
    what = f"The drafter {fit(name, 64)} is" if asked else f"The drafter {name} of the kind {kind} is"
    return _refusal(f"{what} not enabled here; there are {', '.join(enabled)}")


def _refusal(sentence: str) -> FieldError:
    return FieldError(pointer="/drafter", code="drafter_not_enabled", message=f"{sentence}.")


def schema_mode(settings: Settings, drafter: str, question: Consult) -> str:
    """Return how `drafter` receives the schema of a question: native, prompt, or none without one."""
    if question.schema is None:
        return "none"
    if settings.planning_schema_mode != "auto":
        return settings.planning_schema_mode
    has_place = any(place in word for word in settings.cli_command for place in ("{schema_file}", "{schema}"))
    return "prompt" if drafter == "cli" and not has_place else "native"


class RecordedDrafter:
    """Asks `drafter` about plans of one partition, each question once; not for several threads at once."""

    def __init__(
        self,
        client: Redis,
        partition: Partition,
        drafter: Drafter,
        artifacts: Artifacts | None = None,
        name: str = "backend",
    ) -> None:
        self._client = client
        self._partition = partition
        self._drafter = drafter
        self._artifacts = artifacts
        self._name = name

    def ask(self, plan_id: str, number: int, question: Consult, stop: Stop) -> Drafted:
        """Return the recorded answer to question `number` about a plan, or ask now.

        If a question was asked and its answer was lost, the answer is an error. A question that was stopped has no
        answer.
        """
        key = self._partition.drafts(plan_id)
        if (known := self._begin(key, number, question)) is not None:
            return known
        began = time.monotonic()
        answer = self._drafter.ask(question, lambda: self._is_over(stop))
        self._count(answer, time.monotonic() - began)
        if isinstance(answer.output, str):  # half a surrogate pair has no encoding, but a paid answer is kept
            answer = replace(answer, output=answer.output.encode(errors="replace").decode())
        kept = answer if answer.error == STOPPED else self._keep(key, number, answer)
        if self._artifacts:
            self._artifacts.keep(plan_id, number, question, answer)
        return kept

    def _count(self, answer: Drafted, seconds: float) -> None:
        result = "answered" if answer.error is None else "stopped" if answer.error == STOPPED else "failed"
        HERE.count(metrics.DRAFTER_CALLS, self._name, result)
        HERE.count(metrics.DRAFTER_TOKENS, self._name, by=max(0, answer.tokens))
        HERE.observe(metrics.DRAFTER_SECONDS, seconds, self._name)

    def _begin(self, key: str, number: int, question: Consult) -> Drafted | None:
        """Record that the question is asked. Returns the earlier answer if it was asked before."""
        digest = hashlib.sha256(codec.canonical([question.prompt, question.schema])).hexdigest()
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hsetnx(key, f"{number}:asked", digest)
        pipeline.expire(key, KEPT_S)
        pipeline.hmget(key, f"{number}:asked", f"{number}:answer")
        is_new, _, (asked, answer) = pipeline.execute()
        if is_new:
            return None
        if asked.decode() != digest:  # another release has other words; a paid answer is used in any case
            log.warning("draft was asked in other words", extra={"number": number})
        if answer:
            return _answer(answer)
        return self._keep(key, number, Drafted(error=LOST, tokens=estimate(question.prompt)))

    def _keep(self, key: str, number: int, answer: Drafted) -> Drafted:
        """Record the answer unless there is one. Returns the recorded one, which is the same for all workers."""
        for left in reversed(range(TRIES)):
            try:
                pipeline = self._client.pipeline(transaction=True)
                pipeline.hsetnx(key, f"{number}:answer", codec.dumps(asdict(answer)))
                pipeline.expire(key, KEPT_S)
                pipeline.hget(key, f"{number}:answer")
                return _answer(pipeline.execute()[-1])
            except (RedisConnectionError, RedisTimeoutError, OutOfMemoryError):
                if not left:
                    raise
                time.sleep(PAUSE_S)
        raise AssertionError  # pragma: no cover

    @staticmethod
    def _is_over(stop: Stop) -> bool:
        """Return whether the answer is no longer wanted; a short outage of the server does not count."""
        try:
            return stop()
        except (RedisConnectionError, RedisTimeoutError):
            return False


def _answer(raw: bytes) -> Drafted:
    """Return a recorded answer of any release: fields may be missing or additional."""
    record = codec.loads(raw)
    known = {each.name: record[each.name] for each in fields(Drafted) if each.name in record}
    return Drafted(**known | {"command": tuple(known.get("command", ()))})
