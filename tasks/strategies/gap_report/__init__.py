"""Gap reports: requests of tools, roadmaps and people for a project become one iteration.

`choice` goes through the gaps, most critical first. `history` finds gaps that failed too often. `actions` selects the
actions that close a gap. For this it reads the output of tools (`evidence`) and the files that words mean (`places`).
`constraints` removes protected files. The iteration closes the first gap that has an action left.

`document` describes the iteration: its actions, its criteria and its risk. `steps` makes patches by the risk of their
files, each verified with the tools that `verification` selects. If the files of a gap are not known, an exploring step
comes first. Its answer expands to the patches, with the data in `state`.

No person and no drafter is asked by default. A failed iteration stays as it is. The next iteration learns from the next
report and from the plan history of the repository. `analysis` makes gaps, also for the sources of the command line.
"""

from __future__ import annotations

from tasks.strategies.gap_report.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
