"""Gap reports: what tools, roadmaps and people ask of a project becomes one iteration.

`choice` goes through the gaps, the most critical first: `history` tells which failed too often, `actions` what would be
done about a gap, read in `evidence`, the output of tools, and in `places`, the files that words speak of; `constraints`
takes away what must not be touched. The first gap that is left with an action is the one to close.

`document` writes that iteration down: its actions, how it is judged, how risky it is. `steps` cuts it into patches by
the risk of their files, each verified with the tools that `verification` chooses. Where nobody knows which files a gap
is about, a step that explores comes first, `state` keeps what is needed then, and its answer expands to the patches.

Nothing is asked of a person, and no drafter is. A failed iteration is left as it is: the next report, and the plan
history of the repository, tell the next iteration. `analysis` makes gaps, for the sources of the command line as well.
"""

from __future__ import annotations

from tasks.strategies.gap_report.strategy import advance, answer, draft, input_for, refusal, stuck

__all__ = ["advance", "answer", "draft", "input_for", "refusal", "stuck"]
