"""Writes down each question before it is asked, and its answer after, so that no redelivery asks twice."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import asdict, fields, replace

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas import codec
from tasks.rules.strategy import Consult, Drafted
from worker.drafters.artifacts import Artifacts
from worker.drafters.base import STOPPED, Drafter, Stop, estimate
from worker.store.keys import Partition
from worker.telemetry import metrics
from worker.telemetry.counting import HERE

log = logging.getLogger("planner.drafters")

KEPT_S = 7 * 86_400
LOST = "the worker that asked died"
TRIES = 10  # at writing down what was paid for
PAUSE_S = 1.0


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
        """Answer question `number` about a plan: as it was answered before, or by asking now.

        A question without an answer was somebody's whose answer is lost: that is its answer then. One that was
        stopped has none.
        """
        key = self._partition.drafts(plan_id)
        if (known := self._begin(key, number, question)) is not None:
            return known
        began = time.monotonic()
        answer = self._drafter.ask(question, lambda: self._is_over(stop))
        self._count(answer, time.monotonic() - began)
        if isinstance(answer.output, str):  # half a surrogate pair has no encoding, and what was paid for is kept
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
        """Write down that the question is asked; returns what was answered where it was asked before."""
        digest = hashlib.sha256(codec.canonical([question.prompt, question.schema])).hexdigest()
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hsetnx(key, f"{number}:asked", digest)
        pipeline.expire(key, KEPT_S)
        pipeline.hmget(key, f"{number}:asked", f"{number}:answer")
        is_new, _, (asked, answer) = pipeline.execute()
        if is_new:
            return None
        if asked.decode() != digest:  # another release words it otherwise; what was paid for is used all the same
            log.warning("draft was asked in other words", extra={"number": number})
        if answer:
            return _answer(answer)
        return self._keep(key, number, Drafted(error=LOST, tokens=estimate(question.prompt)))

    def _keep(self, key: str, number: int, answer: Drafted) -> Drafted:
        """Write the answer down unless there is one; returns the one that stands, for everybody the same."""
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
        """Whether nobody wants the answer any more; a server that is away for a moment does not say so."""
        try:
            return stop()
        except (RedisConnectionError, RedisTimeoutError):
            return False


def _answer(raw: bytes) -> Drafted:
    """Read what was written down, by whatever release: fields may be missing, and there may be others."""
    record = codec.loads(raw)
    known = {each.name: record[each.name] for each in fields(Drafted) if each.name in record}
    return Drafted(**known | {"command": tuple(known.get("command", ()))})
