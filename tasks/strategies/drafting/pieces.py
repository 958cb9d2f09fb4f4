"""Splits the files of a change into parts that one step may change, by the risk of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from schemas.base import RiskLevel
from schemas.step import PlannedStep
from tasks.rules.risk import RISK, assess_declared
from tasks.toolchain.files import Role, chunks, files_of

PHASES = {  # of a step whose risk level asks for two
    "scaffold": "Only the structure: behaviour stays as it is.",
    "fill": "Fill in the outline of the step before.",
}
TEMPLATE_PHASES = {  # the same, in the words of templates and reviewed plans
    "scaffold": "Scaffold only: the structure, with the behaviour unchanged.",
    "fill": "Fill in the scaffold of the step before.",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """The files of one step, its risk level, and its phase if that level requires two phases."""

    files: tuple[str, ...]
    level: RiskLevel
    phase: str | None = None


def level_of(files: Sequence[str]) -> RiskLevel:
    """Return the risk of a change of these files, if no one declared another risk.

    Documents and tests alone are LOW, code is MED. Names of risky files raise the level.
    """
    harmless = len(files_of(files, Role.DOCUMENT, Role.TEST)) == len(files)
    return assess_declared(RiskLevel.LOW if harmless else RiskLevel.MED, files).level


def fits_one_step(files: Sequence[str]) -> bool:
    """Return whether one step may touch all of `files`."""
    return len(files) <= RISK[level_of(files)].max_files


def fits_one_piece(files: Sequence[str]) -> bool:
    """Return whether `files` make at most one piece."""
    return not files or (fits_one_step(files) and not RISK[level_of(files)].two_phase)


def pieces(files: Sequence[str]) -> tuple[Piece, ...]:
    """Split `files` into parts that one step may change; empty without files.

    Files that fit into one step stay together at the risk of the riskiest file, unless that level has two phases.
    Otherwise riskier files get separate parts and come first. Tests come last, so that they can verify everything.
    """
    if fits_one_piece(files):
        return (Piece(tuple(files), level_of(files)),) if files else ()
    return split(files, lambda path: level_of((path,)))


def split(files: Sequence[str], level_of_file: Callable[[str], RiskLevel]) -> tuple[Piece, ...]:
    """Split `files` by risk and size, and repeat each part for every phase if its level has two phases."""
    return tuple(
        Piece(part, level, phase)
        for part, level in cut(files, level_of_file)
        for phase in (PHASES if RISK[level].two_phase else (None,))
    )


def cut(files: Sequence[str], level_of_file: Callable[[str], RiskLevel]) -> Iterator[tuple[tuple[str, ...], RiskLevel]]:
    """Yield parts of `files`, each with its risk level, riskiest first; a level limits the files of a part."""
    levels = {path: level_of_file(path) for path in files}
    for level in reversed(tuple(RISK)):
        for part in chunks([path for path in files if levels[path] is level], RISK[level].max_files):
            yield part, level


def join_pieces(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Mark the steps of one split change as belonging together: only one of them has to change a file.

    They run in sequence. Only the last patch may not be empty, since it is judged with the changes of the earlier ones.
    """
    patches = [step.step_id for step in steps if step.allowed_files]
    if len(patches) < 2:
        return list(steps)
    return [
        step.model_copy(update={"piece_of": patches[0], "allow_empty": step.step_id != patches[-1]})
        if step.allowed_files
        else step
        for step in steps
    ]
