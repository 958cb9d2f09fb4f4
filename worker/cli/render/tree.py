"""A graph of steps as lines of a tree: what runs one after the other stands flat, what branches is indented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.plan import StepView


def arrange(steps: Sequence[StepView]) -> Iterator[tuple[str, StepView]]:
    """Yield each step with the branch in front of it, below the deepest step that it depends on."""
    children = _children(steps)
    waiting = _branches(children[""], "")
    while waiting:
        step, branch, below = waiting.pop()
        yield branch, step
        waiting += _branches(children[step.step_id], below)


def _branches(siblings: Sequence[StepView], before: str) -> list[tuple[StepView, str, str]]:
    """Give siblings their branches, the last first; a single child goes on where its parent stands."""
    if len(siblings) < 2:
        return [(step, before, before) for step in siblings]
    rest = [(step, before + "├ ", before + "│ ") for step in siblings[:-1]]
    return [(siblings[-1], before + "└ ", before + "  "), *reversed(rest)]


def _children(steps: Sequence[StepView]) -> dict[str, list[StepView]]:
    depths = _depths({step.step_id: step.depends_on for step in steps})
    children: dict[str, list[StepView]] = {"": [], **{step.step_id: [] for step in steps}}
    for step in steps:
        known = [each for each in step.depends_on if each in depths]
        parent = max(known, key=lambda each: depths[each], default="")
        children[parent].append(step)
    return children


def _depths(depends_on: dict[str, Sequence[str]]) -> dict[str, int]:
    """Count the longest way to each step; without recursion, since a plan may be a chain of thousands."""
    depths: dict[str, int] = {}
    for first in depends_on:
        stack = [first]
        while stack:
            known = [each for each in depends_on[stack[-1]] if each in depends_on]
            missing = [each for each in known if each not in depths]
            if missing:
                stack += missing
            else:
                step = stack.pop()
                depths[step] = 1 + max((depths[each] for each in known), default=0)
    return depths
