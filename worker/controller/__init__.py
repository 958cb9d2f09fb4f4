"""The reference controller: lets any agent command do the steps of plans (docs/controllers.md).

It is a client of the wire. From the planner it imports only the schemas and one pure function, `classify`.
"""

from __future__ import annotations

from worker.controller.config import ControllerConfig
from worker.controller.loop import run

__all__ = ["ControllerConfig", "run"]
