"""The reference controller: makes any agent command a member of the fleet (docs/controllers.md).

It is a client of the wire. Of the planner it imports the words (`schemas`) and one pure function, `classify`.
"""

from __future__ import annotations

from worker.controller.config import ControllerConfig
from worker.controller.loop import run

__all__ = ["ControllerConfig", "run"]
