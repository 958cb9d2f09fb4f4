"""The stored state of single features of a plan, a separate part for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from schemas.stored.part import Part, PartOf

MOST_NAMED = 3
WHOLE_PLAN = ""  # key of the whole plan among the waits for files
# Step, attempt, digest of its change, title, the tools that verified it, its risk, number of created files, agent with
# model and controller, the agent's words, and the files that these name and the change does not have.
Accepted: TypeAlias = list[Any]


@dataclass(slots=True)
class Delivery(Part):
    """The accepted changes of a plan, and the state of its delivery (tasks/features/delivery.py)."""

    pages: int = 0  # notes with accepted attempts
    accepted: list[Accepted] = field(default_factory=list)  # the attempts after those of the pages
    risk: str = ""  # the highest of all accepted attempts
    checked: list[list[str]] = field(default_factory=list)  # steps of mode `test` that passed last, and their commands
    step: str = ""
    until: int = 0  # when its wait is over, ms
    left: int | None = None  # ms of that wait, while it stands still
    obstacle: str = ""  # what kept the last attempt from delivering
    branch: str = ""
    pull_request: str = ""
    undelivered: str = ""  # why not all that the goal asks for was delivered
    landed: list[str] = field(default_factory=list)  # commits: of the target, and of the changes on top of it
    base: str = ""  # the commit of the target that the changes begin at now, once they were moved
    target: str = ""  # the name of that branch
    full_since: int = 0  # since when its repository has no room for one more change to review, ms
    lines: int = 0  # that a reviewer has to read, new and gone
    rounds: int = 0  # steps that brought the plan up to date
    mending: str = ""  # the last of them
    red: str = ""  # the landing whose verification was red once, and runs again

    @property
    def is_begun(self) -> bool:
        """Return whether the delivery has begun: all other steps are done."""
        return bool(self.step or self.undelivered)

    @property
    def due(self) -> int | None:
        """When its wait without a claim ends (ms); None while it may not start."""
        return self.until if self.left is None else None

    @property
    def outcome(self) -> dict[str, str]:
        """The delivered branch and pull request, and why a part of the goal's delivery is missing."""
        found = {"branch": self.branch, "pull_request": self.pull_request, "undelivered": self.undelivered}
        return {name: value for name, value in found.items() if value}


@dataclass(slots=True)
class Releases(Part):
    """How often each step was handed back in a row; None where none ever was (tasks/features/handing_back.py)."""

    BY_STEP = ("counts",)

    counts: dict[str, int] | None = None

    def of(self, step_id: str) -> int:
        """Return how often a step was handed back in a row."""
        return (self.counts or {}).get(step_id, 0)

    def add(self, step_id: str) -> None:
        """Count that a step was handed back."""
        self.counts = self.counts or {}
        self.counts[step_id] = self.of(step_id) + 1

    def forget_step(self, step_id: str) -> None:
        """Reset the releases of a step."""
        if self.counts:
            self.counts.pop(step_id, None)


@dataclass(slots=True)
class CannotVerify(Part):
    """Verifications that could not run (tasks/features/cannot_verify.py)."""

    BY_STEP = ("told",)

    told: dict[str, list[list[Any]]] = field(
        default_factory=dict
    )  # step -> attempt, claimant, reason, when in ms, tool and folder, since it ended in another way
    at_base: list[list[str]] = field(default_factory=list)  # tools and folders, at the commit that the plan began with

    def forget_step(self, step_id: str) -> None:
        """Forget the attempts that could not verify a step."""
        self.told.pop(step_id, None)


@dataclass(slots=True)
class Claims(Part):
    """The steps that wait for files that other plans claim (tasks/features/overlaps.py)."""

    BY_STEP = ("waits",)

    waits: dict[str, list[str]] = field(default_factory=dict)  # step, or WHOLE_PLAN -> file, plan before it

    @property
    def hold_plan(self) -> bool:
        """Whether the whole plan waits."""
        return WHOLE_PLAN in self.waits


@dataclass(slots=True)
class AskedFiles(Part):
    """Files that attempts need in addition to those of their steps (tasks/features/needs.py)."""

    given: dict[str, list[list[str]]] = field(default_factory=dict)  # step -> what its attempts were given, each time
    refused: list[str] = field(default_factory=list)  # steps whose refused files a note keeps
    discarded: list[str] = field(default_factory=list)  # steps that were red once without files that were put back

    def forget_step(self, step_id: str) -> None:
        """Forget the files that a step got."""
        self.given.pop(step_id, None)
        self.discarded = [name for name in self.discarded if name != step_id]


@dataclass(slots=True)
class ChangedTests(Part):
    """Failing tests that a success changed although it had to make them pass (tasks/features/unverified.py)."""

    files: list[str] = field(default_factory=list)  # the first ones

    @property
    def doubt(self) -> str | None:
        """The doubt for people; None if no success changed such a test."""
        changed = f"unverified: the failing test itself was changed ({', '.join(self.files)})"
        return changed if self.files else None


@dataclass(slots=True)
class Reports(Part):
    """The reports of tests so far (tasks/features/proof.py)."""

    whole: bool = False  # whether a success had one
    without: list[str] = field(default_factory=list)  # tools that passed without any, the first ones
    # Command -> report at the base, tests collected there, those by file, and failing tests that were there.
    base: dict[str, list[Any]] = field(default_factory=dict)
    changed_tests: bool = False  # whether a step has changed a file of tests
    touched: list[str] = field(default_factory=list)  # files of tests that steps have changed, the first ones

    @property
    def doubt(self) -> str | None:
        """The doubt that the plan rests on exit codes; None if a report was complete, or no controller reported any."""
        return None if self.whole or not self.without else f"unverified: exit code only ({', '.join(self.without)})"


@dataclass(slots=True)
class CreatedFiles(Part):
    """Files that the plan created, if the goal's listing was complete (tasks/features/created_files.py)."""

    known: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Reproduced(Part):
    """The findings of the first step at the plan's base (tasks/features/baseline/reproduction.py)."""

    red: list[str] = field(default_factory=list)  # the notes of added checks
    not_run: list[list[str]] = field(default_factory=list)  # such notes, with the command and why it could not run
    passed: bool = False  # whether the goal's failing tests passed each time

    @property
    def doubt(self) -> str | None:
        """The doubt about checks and tests by the run at the base; None if there is none."""
        told = [
            f"`{command}` could not run at the base and verifies nothing: {why}" for _, command, why in self.not_run
        ]
        if self.passed:
            told.append("The goal's failing tests pass at the base: nothing shows that they failed.")
        return " ".join(told) or None


@dataclass(slots=True)
class Reviewed(Part):
    """The files that a plan changed, which its last step reviews (tasks/features/review.py)."""

    files: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)  # of these


@dataclass(slots=True)
class RiskierFiles(Part):
    """The steps whose riskier files got a separate step (tasks/features/riskier_files.py)."""

    steps: list[str] = field(default_factory=list)
    after: dict[str, list[str]] = field(default_factory=dict)  # step -> its riskier files, where they come behind it

    def forget_step(self, step_id: str) -> None:
        """Forget that riskier files of this step got a separate step."""
        self.steps = [name for name in self.steps if name != step_id]
        self.after.pop(step_id, None)


@dataclass(slots=True)
class IntegrityFound(Part):
    """Effects of changes on tests and checks (tasks/features/integrity.py)."""

    BY_STEP = ("refused", "asked")

    refused: dict[str, int] = field(default_factory=dict)  # step -> how often
    asked: dict[str, str] = field(default_factory=dict)  # step -> digest of the change that a person is asked about
    told: list[list[Any]] = field(default_factory=list)  # step, action, kind, path, line, finding; the last ones

    @property
    def doubt(self) -> str | None:
        """The findings, for people; None if there are none."""
        found = dict.fromkeys(f"{kind} ({path}:{line}, {action})" for _, action, kind, path, line, _ in self.told)
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        return f"integrity: {', '.join([*found][:MOST_NAMED])}{more}" if found else None


@dataclass(slots=True)
class MissingModules(Part):
    """Modules that a person was asked about (tasks/features/missing_modules.py)."""

    BY_STEP = ("asked",)

    asked: dict[str, str] = field(default_factory=dict)  # step -> the last one


@dataclass(slots=True)
class HeldOut(Part):
    """The step that held-out tests judge, after it is made (tasks/features/judging.py)."""

    step: str = ""


@dataclass(slots=True)
class Unjudged(Part):
    """Why the tests of the base did not judge the plan although they had to (tasks/features/judging.py)."""

    why: str = ""

    @property
    def doubt(self) -> str | None:
        """The doubt for people; None if the tests of the base judged the plan."""
        return f"unverified: {self.why}" if self.why else None


@dataclass(slots=True)
class LeftOutInstructions(Part):
    """Why agents did not get the repository's own instructions (tasks/features/instructions.py)."""

    left_out: str = ""


@dataclass(slots=True)
class FailedDiffs(Part):
    """Changes that failed their verification on the tree of the plan (tasks/features/failed_changes.py)."""

    known: list[list[Any]] = field(default_factory=list)  # verification, digest and since when, ms; oldest first


@dataclass(slots=True)
class Reruns(Part):
    """The steps that were run again because of flaky tests (tasks/features/flaky_tests.py)."""

    landed: dict[str, int] = field(default_factory=dict)  # step -> `Streaks.tree_of` its red attempt
    flaky: list[str] = field(default_factory=list)  # tests that passed after a repair step without a change


@dataclass(slots=True)
class Probe(Part):
    """The step that a breaker lets through (tasks/features/breakers)."""

    token: str = ""  # of the probe in flight, empty where there is none
    step_id: str = ""
    attempt: int = 0
    ended: str = ""  # the token of the last probe that ended

    def end(self) -> None:
        """Record that the probe in flight has ended."""
        self.token, self.step_id, self.attempt, self.ended = "", "", 0, self.token


class FeatureParts:
    """The parts of a plan's record that features own, by their names in it, in their order."""

    __slots__ = ()

    delivery = PartOf(Delivery)
    releases = PartOf(Releases)
    claims = PartOf(Claims)
    failed_diffs = PartOf(FailedDiffs)
    reruns = PartOf(Reruns)
    probe = PartOf(Probe)
    asked_files = PartOf(AskedFiles)
    changed_tests = PartOf(ChangedTests)
    created_files = PartOf(CreatedFiles)
    riskier_files = PartOf(RiskierFiles)
    cannot_verify = PartOf(CannotVerify)
    integrity = PartOf(IntegrityFound)
    reproduced = PartOf(Reproduced)
    reviewed = PartOf(Reviewed)
    reports = PartOf(Reports)
    missing_modules = PartOf(MissingModules)
    held_out = PartOf(HeldOut)
    unjudged = PartOf(Unjudged)
    instructions = PartOf(LeftOutInstructions)
