"""All public streams: their addresses, and one AsyncAPI 3.1 document about them.

In an address `{partition}` is a hash tag with its braces, such as `{0}`, and `{queue}` selects the controllers. Facts
that AsyncAPI cannot express are under `x-redis-*`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

GOALS = "planner:goals"
GOALS_DEAD = "{goals}:dead"
COMMANDS = "planner:commands"  # about more than one plan
PLAN_COMMANDS = "planner:{partition}:commands"
OUTCOMES = "planner:{partition}:outcomes"
STEPS = "planner:{partition}:steps:{queue}"
EVENTS = "planner:{partition}:events"
DEAD = "planner:{partition}:dead"
ATTACHMENTS = "planner:{partition}:attachments"
MOST_WAITING = 64  # attachments of a partition; the oldest go first
WEBHOOK_JOBS = "{{planner:goals}}:webhook:jobs"  # the planner's own: what webhooks still need before they are goals
OUTBOX = "planner:{partition}:outbox"  # the planner's own, as the sorted set of deliveries that are due
CALLBACKS = "planner:{partition}:callbacks"

VERSION = "3.1.0"
SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"

DESCRIPTION = """\
Goals go in, step specs come out, outcomes go back. Every channel is a Redis Stream; every message is JSON in one field
of an entry. `{partition}` is a hash tag with its braces. A plan `plan_<bb>-<hex>` is in partition
int(bb, 16) % partitions; with one partition, the default, the tag is `{0}`. Readers ignore fields they do not know.
"""
ATTRIBUTES = ("id", "type", "source", "subject", "time", "traceparent")  # CloudEvents, all optional
ROUTING = ("plan_id", "step_id", "attempt", "lease")  # may be next to an outcome instead of in it
PARAMETERS = {
    "partition": {"description": "Hash tag of the plan's partition, braces included.", "default": "{0}"},
    "goals": {"description": "Hash tag of the goals, braces included.", "default": "{planner:goals}"},
    "queue": {"description": "Which controllers are meant: `queue` of the goal or of the step.", "default": "default"},
}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the planner sees it: it receives or sends `message`; `group` is the consumer group of the readers."""

    name: str
    action: Literal["receive", "send"]
    address: str
    message: str
    summary: str
    group: str | None = None
    field: str = "data"
    beside: Sequence[str] = ()
    capped: int | None = None

    def channel(self) -> dict[str, Any]:
        """Describe the stream itself."""
        used = {name: text for name, text in PARAMETERS.items() if f"{{{name}}}" in self.address}
        redis = {
            "type": "stream",
            "group": self.group,
            "groupStart": "0" if self.group else None,
            "maxlen": self.capped,
        }
        return {
            "address": self.address,
            "summary": self.summary,
            "messages": {self.message: {"$ref": f"#/components/messages/{self.message}"}},
            **({"parameters": used} if used else {}),
            "x-redis-stream": {key: value for key, value in redis.items() if value is not None},
            "x-redis-entry": {"message": self.field, "optional": list(self.beside)},
        }

    def operation(self) -> dict[str, Any]:
        """Describe the planner's use of the stream."""
        channel = f"#/channels/{self.name}"
        return {
            "action": self.action,
            "channel": {"$ref": channel},
            "summary": self.summary,
            "messages": [{"$ref": f"{channel}/messages/{self.message}"}],
        }


STREAMS = (
    Stream(
        "goals", "receive", GOALS, "goal", "What shall be done; anybody may ask.", "planner",
        beside=ATTRIBUTES,
    ),
    Stream(
        "outcomes", "receive", OUTCOMES, "outcome",
        "The outcomes of attempts; a spec names this stream in `reply_to`.", "planner",
        beside=(*ATTRIBUTES, *ROUTING),
    ),
    Stream(
        "attachments", "receive", ATTACHMENTS, "attachment",
        "Diffs of attempts, each sent before its outcome; they are optional.", capped=MOST_WAITING,
    ),
    Stream(
        "commands", "receive", PLAN_COMMANDS, "command",
        "Commands of operators about one plan or step.", "planner", beside=ATTRIBUTES,
    ),
    Stream(
        "commandsToAll", "receive", COMMANDS, "command", "Commands about more than one plan.", "planner",
        beside=ATTRIBUTES,
    ),
    Stream(
        "steps", "send", STEPS, "step_spec",
        "One attempt of a step. An attempt that ended is acknowledged and deleted by the planner.", "controllers",
    ),
    Stream(
        "events", "send", EVENTS, "event",
        "What happened. `type` is dev.planner.<goal|plan|step|outcome|budget|command>.<what>.v1.",
        beside=("type",), capped=10_000,
    ),
    Stream(
        "dead", "send", DEAD, "dead",
        "Outcomes and commands that could not be read, with the reason; the raw bytes are in `data`.",
        field="problem", beside=("data",),
    ),
    Stream(
        "deadGoals", "send", GOALS_DEAD, "dead",
        "Goals that could not be read, with the reason; the raw bytes are in `data`.",
        field="problem", beside=("data",),
    ),
)  # fmt: skip


def document(schemas: Sequence[str], version: int) -> dict[str, Any]:
    """Return the document; `schemas` names the messages, each described by <name>.schema.json in the same folder."""
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "planner-worker",
            "version": f"{version}.0.0",
            "description": DESCRIPTION,
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "redis": {"host": "localhost:6379", "protocol": "redis", "description": "Redis >= 7.0 or Valkey >= 7.2"}
        },
        "channels": {stream.name: stream.channel() for stream in STREAMS},
        "operations": {f"{stream.action}_{stream.name}": stream.operation() for stream in STREAMS},
        "components": {
            "messages": {
                name: {
                    "name": name,
                    "contentType": "application/json",
                    "payload": {"schemaFormat": SCHEMA_FORMAT, "schema": {"$ref": f"./{name}.schema.json"}},
                }
                for name in schemas
            }
        },
    }
