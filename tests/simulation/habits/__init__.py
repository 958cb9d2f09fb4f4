"""Repositories with habits: does what happened to earlier plans make the next one better?

`python -m tests.simulation habits` plays 500 goals to 20 repositories in the order in which they come, some 100 days of
them, without and with each *part* of the planner's memory. `world` has the repositories and their habits, `history` the
goals, `course` one plan, `report` the table.

A part is something that carries over from one plan to the next: a class in `parts` that extends `Part`, and its row in
`PARTS`. One object of it lives through a run. It is asked before a goal is planned (`surround`: what the planner is to
know goes into the `Setting`, and so does what switches a rule on) and in the place of a drafter (`draft`), and hears
how each plan ended (`learn`). What the planner does not have, `tried`, is done around it: to the goal before it is sent
(`send`), to a spec before it is read (`tell`), to what hosts work with (`equip`). A part of the planner's own should
call what the workers call, so that the table is about the planner and not about a copy of it. Counters that plans leave
in the store (`HistoryChange`) are carried over by themselves.

What agents do with what they are told is in `tests/simulation/agent.py` and `host.py`: they read `context.memory` of
their spec, are sometimes misled by it (`MISLED`), make a failed change again (`Bench.repeats`), less often where
`context.failed_diffs` is there, and pay for the longer prompt (`LONGER`).
"""
