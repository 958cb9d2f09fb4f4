"""The isolation of verifications on the doctor's host, which may be another than the controllers' hosts."""

from __future__ import annotations

from typing import Any

from worker.sandbox.sandbox import Sandbox, SandboxMode
from worker.sandbox.user import User, WrongUser

HELD = {
    "clone": "in a new clone",
    "user": "as another user",
    "landlock": "confined by Landlock",
    "bwrap": "confined by bubblewrap",
    "no-network": "without a network",
}
LACKING = {
    "landlock": "a kernel with Landlock (Linux 5.13 or newer) would keep them from files of others",
    "bwrap": "bubblewrap (`bwrap` on the PATH) would keep them from processes of others, and from the network",
    "no-network": "a host that allows network namespaces would keep them from the network",
}
OFF = "PLANNER_SANDBOX is off"


def isolation(mode: str, agent_user: str | None) -> dict[str, Any]:
    """Return the isolation on this host as JSON, in the words of receipts, with a sentence for people."""
    held = ("clone", *Sandbox(SandboxMode(mode), user=_user(agent_user), has_network=False).isolation)
    sentence = f"Verifications on this host run {', '.join(HELD[name] for name in held)}."
    lacking = [name for name in LACKING if name not in held]
    if mode == SandboxMode.OFF:
        sentence += f" {OFF}."
    elif lacking:
        # Without bubblewrap the network is unknown.
        told = [LACKING[name] for name in lacking if name != "no-network" or "bwrap" in held]
        sentence += f" Missing: {'; '.join(told)}."
    return {"isolation": " ".join(held), "sentence": sentence}


def _user(name: str | None) -> User | None:
    try:
        return User.find(name) if name else None
    except WrongUser:  # of another host
        return None
