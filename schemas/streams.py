"""The addresses of the streams: their names on the wire, with `{partition}` where each partition has one of its own.

`{partition}` stands for a hash tag with its braces, such as `{0}`, and `{queue}` for the controllers that are meant.
"""

from __future__ import annotations

GOALS = "planner:goals"
GOALS_DEAD = "{goals}:dead"
COMMANDS = "planner:commands"  # about more than one plan
PLAN_COMMANDS = "planner:{partition}:commands"
OUTCOMES = "planner:{partition}:outcomes"
STEPS = "planner:{partition}:steps:{queue}"
EVENTS = "planner:{partition}:events"
DEAD = "planner:{partition}:dead"
