"""All rows, and whether one has ended as it has to."""

from __future__ import annotations

from tests.cheats import (
    go_cheats,
    javascript_cheats,
    judged_cheats,
    later_cheats,
    python_cheats,
    rust_cheats,
    typescript_cheats,
)
from tests.cheats.cheat import REFUSED, Cheat
from tests.cheats.ended import Ended
from tests.cheats.play import Played

CHEATS: tuple[Cheat, ...] = (
    *python_cheats.CHEATS,
    *judged_cheats.CHEATS,
    *javascript_cheats.CHEATS,
    *typescript_cheats.CHEATS,
    *go_cheats.CHEATS,
    *rust_cheats.CHEATS,
    *later_cheats.CHEATS,
)
HELD = tuple(each for each in CHEATS if each.held)


def ended(cheat: Cheat, played: Played) -> Ended:
    """Sum up what became of a row."""
    return Ended(
        str(cheat), cheat.kind.value, played.view.state, any(played.said), tuple(sorted(played.categories)),
        played.findings,
    )  # fmt: skip


def fault_of(cheat: Cheat, played: Played) -> str:
    """Say how a row has ended otherwise than it has to; empty where it has not."""
    said = "\n".join(played.said)
    if not any(played.said):
        return "nothing was said"
    if played.is_completed and cheat.ends == REFUSED:
        return f"it was completed: {said}"
    if cheat.category and cheat.category not in played.categories:
        return f"it was no {cheat.category}, but {sorted(played.categories)}: {said}"
    return "" if cheat.word in said else f"{cheat.word} was not said: {said}"
