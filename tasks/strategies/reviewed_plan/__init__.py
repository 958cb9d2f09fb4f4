"""Reviewed plans: planned and carried out by roles, with gates between.

`workflow` is the table of it all, eleven rows of planning and nine of execution; `rows` has the kinds of rows that
there are, and `steps` what a role is to do. The architect, the developer and the technical writer answer `operations`,
the only way in which plan.json changes, and `integrity` says what must hold of it at any time. A reviewer decides item
by item, `gate` adds the items up: on, back to the work with what failed, or, when that has gone on for too long, a
`decision` of a person. With the last gate of planning plan.json is frozen and `markdown` writes it for people.

Then it is carried out: `milestones` puts it into waves, `implementation` makes their patches, `document` keeps what
became of each milestone and reports it. `material` hands each step the documents that its row reads, `prompt` asks for
it in words; `words` makes what comes from outside fit for them. `state` has the turn, the value on which every row
works.

Whatever a role answers is judged before it counts (`refusal`), and applied as a whole when its step ends (`advance`).
A review that finds faults is no failure: it sends the work back as new steps, until a person has to decide.
"""

from __future__ import annotations

from tasks.strategies.reviewed_plan.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
