"""The loop of a controller: receive a spec, claim it, do it, publish the outcome, acknowledge."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from threading import Event

from pydantic import ValidationError

from schemas import codec
from schemas.attachment import MAX_ATTACHMENT_BYTES, Kind
from schemas.envelope import DATA
from schemas.outcome import Outcome, Transcript
from worker.client.http_link import GatewayLink
from worker.client.http_steps import HttpSteps
from worker.client.redis_steps import RedisSteps
from worker.client.steps import StepEntry, Steps, call_until_answered, tell
from worker.client.trouble import NoRight, Refused, Trouble
from worker.controller.attempt import AttemptRun
from worker.controller.attempt_log import TRANSCRIPT, AttemptLog, digest
from worker.controller.config import ControllerConfig
from worker.controller.delivery import Delivery
from worker.controller.failed_changes import FailedChanges
from worker.controller.kept_changes import KeptChanges
from worker.controller.landing import Landing
from worker.controller.lease import LeaseClient, Paused
from worker.controller.pauses import Pauses
from worker.controller.places import Places
from worker.controller.readiness import CannotWork, NotUnderstood
from worker.controller.result import Result, outcome, too_many_calls
from worker.controller.wire import Spec
from worker.host.code_version import CODE_VERSION
from worker.host.git import GitError
from worker.host.stop_signals import stop_on_signals
from worker.sandbox.process import Abandoned
from worker.sandbox.sandbox import NoSandbox
from worker.telemetry import tracing
from worker.telemetry.tracing import SpanKind

log = logging.getLogger("planner.controller")

AWAY_PAUSE_S = 1.0  # pause after a server did not answer
PAUSED_S = 2.0  # until a step of a paused plan is claimed again, while others are done
PAUSED_EACH_S = 0.05  # and so much longer for each of them
ABILITIES = (
    "at",
    "cannot_verify",
    "failed_diffs",
    "failing_tests",
    "needs",
    "nothing_to_change",
    "patterns",
    "released",
)  # additions to the wire that this controller supports
UNDERSTOOD = frozenset({"cwd", "patterns", "setup", "holdout", "land"})  # supported requirements
MAX_SENT_BYTES = 64 * 1024  # of a transcript
MAX_HOST = 200  # characters: the description in a heartbeat has at most 512 bytes


def run(config: ControllerConfig, stop: Event | None = None) -> int:
    """Work until SIGTERM, SIGINT or `stop`. Returns the exit code: 0 for a normal end, 1 if the planner or git refuses.

    A step in progress is abandoned at the end: its agent is stopped, nothing is published, and its lease expires.
    """
    stop = stop or Event()
    try:
        with stop_on_signals(stop), Places.opened(config) as places, closing(open_steps(config, stop)) as steps:
            call_until_answered(steps.check, stop)
            Controller(config, steps, places, stop).run()
    except Abandoned:  # we were asked to stop before the planner answered
        return 0
    except (Trouble, GitError, NoSandbox, OSError) as error:
        log.error("controller_refused", extra={"error": str(error)})
        return 1
    return 0


def open_steps(config: ControllerConfig, stop: Event) -> Steps:
    """Return the source of steps for a configuration: over HTTP, or from Redis."""
    claimant = config.claimant or config.name
    if config.gateway:
        return HttpSteps(GatewayLink(config.gateway, patience_s=0.0), config.all_queues, claimant, stop)
    return RedisSteps(config.redis_url, config.all_queues, config.partitions, config.name, claimant, stop)


class Controller:
    """A controller at work in its `places`: one clone for each repository."""

    def __init__(self, config: ControllerConfig, steps: Steps, places: Places, stop: Event) -> None:
        self._config, self._steps, self._places, self._stop = config, steps, places, stop
        self._pauses = Pauses(places.count, time.monotonic)
        self._failed_changes = FailedChanges(config.logs.path / "failed", config.secrets) if config.logs else None
        self._kept_changes = KeptChanges(config.logs.path / "kept") if config.logs else None
        self._aside: deque[tuple[float, StepEntry]] = deque()  # steps of paused plans, and when to ask for them again

    def run(self) -> None:
        """Do steps until the controller is stopped, or one step if the configuration asks for that."""
        log.info("controller_started", extra={"controller": self._config.name, "queues": self._config.all_queues})
        while not self._stop.is_set():
            entry = self._receive()
            if entry and self._handle(entry) and self._config.once:
                break
        log.info("controller_stopped", extra={"controller": self._config.name})

    def _receive(self) -> StepEntry | None:
        if self._aside and self._aside[0][0] <= time.monotonic():
            return self._aside.popleft()[1]
        try:
            return self._steps.receive()
        except Refused:
            raise
        except Trouble as trouble:
            tell(trouble)
            self._stop.wait(AWAY_PAUSE_S)
            return None

    def _handle(self, entry: StepEntry) -> bool:
        """Work on `entry` and acknowledge it. Return whether it contained a step.

        A step of a paused plan is set aside until it can be claimed.
        """
        spec = read(entry)
        try:
            if spec:
                self._work(spec, entry)
        except Paused:
            self._aside.append((time.monotonic() + PAUSED_S + PAUSED_EACH_S * len(self._aside), entry))
            return False
        except Abandoned as reason:
            log.info("step_abandoned", extra={**(spec.ids if spec else {}), "reason": str(reason)})
            if self._stop.is_set():
                return True  # it stays pending: it is ours until the lease expires
        self._steps.acknowledge(entry)
        return spec is not None

    def _work(self, spec: Spec, entry: StepEntry) -> None:
        lease = LeaseClient(self._steps, spec, self._config.heartbeat_s, self._stop, self._info())
        lease.claim()
        seconds = None
        if not lease.claimed:  # without a heartbeat never beyond the attempt's deadline
            seconds = (spec.deadline - datetime.now(UTC)).total_seconds()
            if seconds <= 0:
                raise Abandoned("deadline")
        log.info("step_started", extra=spec.ids)
        with self._traced(spec, entry):
            self._do(spec, entry, lease, seconds)

    def _traced(self, spec: Spec, entry: StepEntry) -> AbstractContextManager[None]:
        """Open a span of the plan's trace for the attempt; a plan without a trace gets none."""
        if spec.traceparent is None:
            return nullcontext()
        ids = {f"planner.{name}": value for name, value in spec.ids.items()}
        about = {**ids, "messaging.message.id": entry.id.decode(), "messaging.consumer.group.name": "controllers"}
        told = tracing.messaging("process", entry.stream, about)
        return tracing.span(f"process {entry.stream}", SpanKind.CONSUMER, spec.traceparent, told)

    def _sent(self, spec: Spec) -> AbstractContextManager[None]:
        """Open a span for the sending of an outcome, below the attempt's span, if that exists."""
        if spec.traceparent is None:
            return nullcontext()
        told = tracing.messaging("send", spec.reply_to)
        return tracing.span(f"send {spec.reply_to}", SpanKind.PRODUCER, attributes=told)

    def _do(self, spec: Spec, entry: StepEntry, lease: LeaseClient, seconds: float | None) -> None:
        with lease.renewal():
            started = time.monotonic()
            raw, done = entry.fields[DATA], AttemptLog(self._config.secrets)
            try:
                result = self._attempt(spec, raw, lease, seconds, done)
            except Abandoned:
                if not lease.has_too_many_calls:
                    self._keep(spec, raw, done)
                    raise
                result = too_many_calls(lease.tool_calls or 0)
            duration_ms = int((time.monotonic() - started) * 1000)
            message = outcome(spec, result, duration_ms, self._config.name)
            message = message.model_copy(update={"traceparent": tracing.traceparent(spec.traceparent)})
            if place := self._keep(spec, raw, done, message):
                message = message.model_copy(update={"transcript": self._send_transcript(spec, done, place)})
            data = codec.encode(message, exclude_none=True)
            if message.success and message.touched_files:
                self._attach(spec, done.diff)
            self._publish(spec, data)
        tracing.add({"planner.success": message.success, "planner.released": message.released is not None})
        log.info("step_finished", extra={**spec.ids, "success": message.success, "duration_ms": duration_ms})
        self._count(spec.context.repo or "", result.trouble)

    def _send_transcript(self, spec: Spec, done: AttemptLog, place: Transcript) -> Transcript:
        """Send the agent's output, shortened and without secrets, if that is enabled.

        Returns `place`; with the digest of the output if it was sent.
        """
        sent = done.excerpt(MAX_SENT_BYTES) if self._config.sends_transcripts else b""
        if not sent or not self._attach(spec, sent, "transcript"):
            return place
        return place.model_copy(update={"sent": digest(sent)})

    def _attach(self, spec: Spec, content: bytes, kind: Kind = "diff") -> bool:
        """Send a landed diff or an agent's output to the planner, for people. Return whether it was sent.

        An error does not fail the attempt.
        """
        if not 0 < len(content) <= MAX_ATTACHMENT_BYTES:
            return False
        try:
            self._steps.attach(spec.held, content, kind)
        except Trouble as trouble:
            log.warning("diff_not_sent", extra={**spec.ids, "error": str(trouble)})
            return False
        return True

    def _publish(self, spec: Spec, data: bytes) -> None:
        """Send an outcome until the planner accepts it; if the planner refuses it, log that and drop it."""
        try:
            with self._sent(spec):
                call_until_answered(lambda: self._steps.publish(spec.held, data), self._stop)
        except NoRight:
            raise
        except Refused as refused:
            log.error("outcome_refused", extra={**spec.ids, "error": str(refused)})

    def _info(self) -> bytes:
        """Return the description of this controller for `planner controllers`."""
        return codec.dumps({"version": CODE_VERSION, "host": socket.gethostname()[:MAX_HOST], "abilities": ABILITIES})

    def _keep(self, spec: Spec, raw: bytes, done: AttemptLog, message: Outcome | None = None) -> Transcript | None:
        """Store the record `done` of an attempt. Return the place of its transcript; None if it is not stored.

        An abandoned attempt has no outcome as `message`.
        """
        logs = self._config.logs
        if not logs:
            return None
        place, transcript = logs.place(spec.plan_id, spec.step_id, spec.attempt), done.transcript
        if not logs.keep(place, {TRANSCRIPT: transcript, **done.files(raw, message)}):
            return None
        path = os.fsencode(place / TRANSCRIPT).decode(errors="replace")
        return Transcript(path=path, digest=digest(transcript), host=socket.gethostname()[:MAX_HOST])

    def _attempt(self, spec: Spec, raw: bytes, lease: LeaseClient, most_s: float | None, done: AttemptLog) -> Result:
        try:
            if paused := self._pauses.reason(spec.context.repo or ""):
                raise paused
            if unknown := sorted(set(spec.requires) - UNDERSTOOD):
                raise NotUnderstood(
                    f"this controller does not understand {', '.join(unknown)}, which the step requires"
                )
            if spec.delivers:
                return Delivery(spec, *self._places.delivered(spec.context.repo), lease).run()
            if spec.lands:
                verify = partial(self._run, spec, raw, lease, most_s, done)
                return Landing(spec, *self._places.delivered(spec.context.repo), lease, verify).run()
            return self._run(spec, raw, lease, most_s, done)
        except CannotWork as reason:
            return Result(released=reason)

    def _run(self, spec: Spec, raw: bytes, lease: LeaseClient, most_s: float | None, done: AttemptLog) -> Result:
        """Do a step in the clone of its repository, and return the result. Raises CannotWork without such a clone."""
        place = self._places.of(spec.context.repo)
        seconds = place.agent_timeout_s if most_s is None else min(place.agent_timeout_s, most_s)
        known = (self._failed_changes, self._kept_changes, self._config.is_strict, self._config.mutants)
        return AttemptRun(spec, raw, place, lease, seconds, done, *known).run()

    def _count(self, repository: str, released: CannotWork | None) -> None:
        """Pause after steps that had to be returned, longer each time; a step that could be done ends the series."""
        if not (pause := self._pauses.count(repository, released)):
            return
        told = {"reason": str(released), "seconds": pause.seconds, "repository": pause.repository}
        log.warning("controller_paused", extra=told)
        if pause.repository is None and not self._stop.wait(pause.seconds):
            log.info("controller_resumed", extra={"controller": self._config.name})


def read(entry: StepEntry) -> Spec | None:
    """Return the spec in `entry`; None if it is deleted or unreadable."""
    if DATA not in entry.fields:
        return None
    try:
        return Spec.model_validate(codec.loads(entry.fields[DATA]))
    except (codec.DecodeError, ValidationError) as error:
        log.error("spec_unreadable", extra={"stream": entry.stream, "entry": entry.id.decode(), "error": str(error)})
        return None
