"""Cycles of a dependency graph, found in linear time and without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

NAMED = 10  # members of a cycle that are named


def cycles(graph: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Find cycles among steps and what they wait for: at least one of each knot. A step that waits for itself is none.

    What Kahn's algorithm cannot order waits, directly or not, for a cycle: from each such step one of its own kind is
    followed until a step comes again.
    """
    left = _unordered(graph)
    following = {
        name: next(each for each in graph[name] if each in left and each != name) for name in graph if name in left
    }
    seen: set[str] = set()
    for start in following:
        path: dict[str, int] = {}
        name = start
        while name not in seen:
            seen.add(name)
            path[name] = len(path)
            name = following[name]
        if name in path:
            yield tuple(path)[path[name] :]


def name_cycle(members: Sequence[str]) -> str:
    """Name a cycle's members, the first ten of them."""
    shown = ", ".join(members[:NAMED])
    return shown if len(members) <= NAMED else f"{shown} and {len(members) - NAMED} more"


def _unordered(graph: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Order by Kahn's algorithm; return what is left over."""
    unmet: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for name, waits in graph.items():
        known = {each for each in waits if each in graph and each != name}
        unmet[name] = len(known)
        for each in known:
            dependents.setdefault(each, []).append(name)
    free = [name for name, count in unmet.items() if not count]
    for name in free:  # grows while it is read
        for each in dependents.get(name, ()):
            unmet[each] -= 1
            if not unmet[each]:
                free.append(each)
    return frozenset(unmet).difference(free)
