"""Reviewed plans: roles plan and execute the work, and a gate follows each part of it.

`workflow` is the table of all rows: eleven of planning and nine of execution. `rows` contains the kinds of rows, and
`steps` the work of each role. The architect, the developer and the technical writer answer with `operations`, the only
way to change plan.json; `integrity` checks its invariants. A reviewer decides each item, and `gate` counts the items.
Then the work goes on, or goes back with the failed items. After too many rounds a person makes a `decision`. The last
gate of planning freezes plan.json, and `markdown` writes it for people.

Then the plan is executed. `milestones` puts milestones into waves, `implementation` makes their patches, and `document`
stores and reports the outcome of each milestone. `material` gives each step the documents that its row reads, and
`prompt` asks for the work in words. `words` cleans text from outside for both. `state` contains the turn, the value
that every row works on.

Every answer of a role is judged before it counts (`refusal`), and applied as a whole when its step ends (`advance`). A
review with findings is no failure: it sends the work back as new steps, until a person has to decide.
"""

from __future__ import annotations

from tasks.strategies.reviewed_plan.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
