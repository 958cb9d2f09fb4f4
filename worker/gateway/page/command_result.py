"""What became of a command that the page sent, told where the page leads afterwards."""

from __future__ import annotations

from typing import NamedTuple

from worker.gateway.context import Context
from worker.gateway.page.acts import TELL, Act
from worker.store import history
from worker.store.keys import PlanKeys

UNKNOWN = (
    "The planner has not said yet what becomes of this command. If it was sent a while ago, it is not among the newest "
    "commands of this plan any more."
)


class Became(NamedTuple):
    """A sentence, and the colour of what it means."""

    text: str
    tone: str


def became_of(doors: Context, keys: PlanKeys, command_id: str | None) -> Became | None:
    """Say what the log of a plan knows of a command; None where none is asked about."""
    if not command_id:
        return None
    found = history.find_command(doors.client, keys, command_id)
    if found is None:
        return Became(UNKNOWN, "amber")
    said, refusal = found
    title = TELL[Act(said["command"])].title if said.get("command") in set(Act) else str(said.get("command"))
    return Became(f"{title}: refused, {refusal}.", "red") if refusal else Became(f"{title}: done.", "green")
