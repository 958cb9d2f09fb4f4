"""What an iteration keeps while its files are looked for: nothing that a goal, cut to its needs, would lose."""

from __future__ import annotations

from schemas.goal import Goal
from tasks.rules.strategy import Growth
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report.choice import Choice
from tasks.strategies.gap_report.constraints import Protection
from tasks.strategies.gap_report.document import Iteration
from tasks.strategies.gap_report.places import PROTECTED
from tasks.strategies.gap_report.verification import judged, test_command
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue


def kept(iteration: Iteration, choice: Choice) -> dict[str, object]:
    """Write down what is needed when the files are found."""
    language = iteration.project.language
    return {
        "failed": iteration.failed,
        "guidance": iteration.guidance,
        "protected": list(choice.protected),
        "judges": choice.judges,
        "checks": choice.rules.checks,
        "language": language.name if language else None,
    }


def protection_of(growth: Growth) -> Protection:
    """Find what an iteration may not touch: what nobody may, and what its goal and its constraints name."""
    return Protection.of((*PROTECTED, *growth.state.get("protected", ())))


def free_files(goal: Goal, protection: Protection) -> tuple[str, ...]:
    """List the files that a goal allows and nothing protects."""
    return protection.without(expand_globs(goal.allowed_files, goal.context.files, forbidden=JUDGED).files)


def project_of(growth: Growth, files: tuple[str, ...], catalogue: Catalogue) -> Project:
    """Read the project as it was when the plan was made; a test command that is no longer known is left out."""
    context = growth.goal.context
    context = context.model_copy(update={"language": growth.state.get("language") or context.language})
    goal = growth.goal.model_copy(update={"context": context})
    test, _ = test_command(goal, catalogue)
    return judged(Project.of(goal, files, test, catalogue), growth.state.get("judges"))
