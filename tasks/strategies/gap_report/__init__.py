"""Gap reports: requests of tools, roadmaps and people for a project become one iteration.

`choice` goes through the gaps, most critical first. `history` finds gaps that failed too often. `actions` selects the
actions for a gap, which is read in `evidence`, the output of tools, and in `places`, the files that words mean.
`constraints` removes protected files. The first gap with an action left is the one to close.

`document` describes that iteration: its actions, its criteria and its risk. `steps` splits it into patches by the risk
of their files, each verified with the tools that `verification` selects. If the files of a gap are not known, a step
that explores comes first. `state` stores the data for its answer, which expands to the patches.

No person and no drafter is asked. A failed iteration is left as it is: the next report, and the plan history of the
repository, inform the next iteration. `analysis` makes gaps, also for the sources of the command line.
"""

from __future__ import annotations

from tasks.strategies.gap_report.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
