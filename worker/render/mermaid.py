"""A plan's steps as a Mermaid flowchart, which GitHub, GitLab and editors draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_NODES = 100
MAX_EDGES = 400  # a renderer takes 500
# the fill of a node by its step's state, legible on a light and on a dark page
FILLS = {
    "DONE": "#2da44e",
    "ACTIVE": "#bf8700",
    "FAILED": "#cf222e",
    "HALTED": "#a40e26",
    "SKIPPED": "#8c959f",
    "PENDING": "#57606a",
    "BLOCKED": "#57606a",
}


def flowchart(steps: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """Return a flowchart of steps, each (id, state, ids it depends on); an empty state is not written.

    Only the first MAX_NODES steps and MAX_EDGES arrows are drawn.
    """
    shown = list(steps)[:MAX_NODES]
    names = {step_id: f"s{number}" for number, (step_id, _, _) in enumerate(shown)}
    lines, used = ["flowchart TD"], set()
    for step_id, state, _ in shown:
        label = "<br/>".join(filter(None, (_plain(step_id), _plain(state))))
        mark = f":::{state}" if state in FILLS else ""
        used |= {state} & FILLS.keys()
        lines.append(f'    {names[step_id]}["{label}"]{mark}')
    edges = ((names[before], names[each]) for each, _, depends in shown for before in depends if before in names)
    lines += [f"    {before} --> {after}" for before, after in list(edges)[:MAX_EDGES]]
    lines += [f"    classDef {state} fill:{FILLS[state]},stroke:none,color:#ffffff" for state in sorted(used)]
    return "\n".join(lines)


def _plain(word: str) -> str:
    """Return the word with only the characters that a label may have; step ids have no others."""
    return "".join(letter if letter.isalnum() or letter in "-_ ." else " " for letter in word)[:64]
