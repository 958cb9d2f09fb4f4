"""Splits a change into parts that one step may touch, by the risk of its files."""

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
    """The files of one step, its level, and its phase if that level has two."""

    files: tuple[str, ...]
    level: RiskLevel
    phase: str | None = None


def level_of(files: Sequence[str]) -> RiskLevel:
    """Return the risk of a change that has no other assessment.

    Code is MED, documents and tests alone are LOW, unless their names raise it.
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
    """Split `files` into parts that one step may touch.

    Riskier files are separate and come first. Tests come last, so that they can prove the whole. Files that fit into
    one step stay together, at the level of the riskiest, unless that level has two phases.
    """
    if fits_one_piece(files):
        return (Piece(tuple(files), level_of(files)),) if files else ()
    return split(files, lambda path: level_of((path,)))


def split(files: Sequence[str], level_of_file: Callable[[str], RiskLevel]) -> tuple[Piece, ...]:
    """Split `files` into parts, with one for each phase if a level has two."""
    return tuple(
        Piece(part, level, phase)
        for part, level in cut(files, level_of_file)
        for phase in (PHASES if RISK[level].two_phase else (None,))
    )


def cut(files: Sequence[str], level_of_file: Callable[[str], RiskLevel]) -> Iterator[tuple[tuple[str, ...], RiskLevel]]:
    """Split `files` by the level of each and by the size that it allows, riskier ones first."""
    levels = {path: level_of_file(path) for path in files}
    for level in reversed(tuple(RISK)):
        for part in chunks([path for path in files if levels[path] is level], RISK[level].max_files):
            yield part, level


def join_pieces(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Let the steps of one split change count together: each may change nothing, if another one changes a file.

    They run in sequence, so that the last one is judged with the changes of those before it.
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
