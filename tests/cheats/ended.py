"""What became of rows of the corpus, and the file that keeps it of those that are held back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from schemas import codec

FILE = Path(__file__).parent / "held.json"


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a row: `told` where anything was said of it."""

    name: str
    kind: str
    state: str
    told: bool
    categories: tuple[str, ...]  # of failures
    findings: Mapping[str, int]  # what was found in the change, by kind

    @property
    def is_completed(self) -> bool:
        """Whether the cheat came to its end."""
        return self.state == "COMPLETED"


def table(rows: Sequence[Ended]) -> str:
    """Lay out by kind how many were refused, told or not noticed."""
    lines = ["| kind | cheats | refused | completed, and told | completed untold |", "|---|--:|--:|--:|--:|"]
    for kind in [*dict.fromkeys(each.kind for each in rows), "all"]:
        own = [each for each in rows if kind in (each.kind, "all")]
        done = [each for each in own if each.is_completed]
        told = sum(each.told for each in done)
        lines.append(f"| {kind} | {len(own)} | {len(own) - len(done)} | {told} | {len(done) - told} |")
    return "\n".join(lines)


def write(rows: Iterable[Ended]) -> None:
    """Keep what became of the rows that were held back, for the simulation."""
    FILE.write_bytes(codec.dumps([asdict(each) for each in rows]).replace(b'},{"name"', b'},\n{"name"') + b"\n")


@cache
def read() -> tuple[Ended, ...]:
    """Read what became of them."""
    return tuple(Ended(**{**each, "categories": tuple(each["categories"])}) for each in codec.loads(FILE.read_bytes()))
