"""Chooses the drafter of a goal and asks it, at most once for each question even if a worker dies in between."""

from __future__ import annotations

from collections.abc import Callable

from redis import Redis

from schemas.base import GoalKind
from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.rules.strategy import Consult, Drafted, Rejected, Setting
from tasks.rules.validation import reject
from tasks.text.fields import fit
from worker.drafters import drafter_of
from worker.drafters.artifacts import Artifacts
from worker.drafters.base import Drafter, secrets_of
from worker.drafters.recorded import RecordedDrafter
from worker.settings.settings import Settings
from worker.store.keys import Partition
from worker.telemetry import tracing
from worker.telemetry.tracing import SpanKind

GRACE_S = 60.0  # for a worker that takes the goal over, beyond the time of every question


class Consulting:
    """Asks drafters on behalf of goals. One per process; not for several threads at once."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self.drafters: dict[str, Drafter] = {}  # by name, each made when it is first asked

    @property
    def patience_ms(self) -> int:
        """How long a plan waits for its drafter at the most."""
        here = self._settings
        longest = max(here.llm_timeout_s, here.cli_timeout_s, here.planning_timeout_seconds)
        return int(1000 * (longest * here.planning_max_attempts + GRACE_S))

    def setting(self, goal: Goal) -> Setting | Rejected:
        """Say what surrounds `goal`, as `setting_of` does."""
        return setting_of(goal, self._settings)

    def may_ask(self, goal: Goal) -> bool:
        """Tell whether `goal` has a drafter that a worker asks."""
        setting = self.setting(goal)
        return isinstance(setting, Setting) and setting.drafter not in (NONE, QUEUE)

    def identity(self, drafter: str) -> str:
        """Say who `drafter` is and as what it is run: another model or command drafts otherwise."""
        here = self._settings
        run_as: dict[str, tuple[object, ...]] = {
            "http": (here.llm_model, here.llm_base_url),
            "cli": (here.cli_command, here.cli_output, here.cli_working_dir),
            "backend": (here.planning_backend,),
        }
        return " ".join(map(str, (drafter, *run_as.get(drafter, ()))))

    def ask(
        self,
        drafter: str,
        partition: Partition,
        plan_id: str,
        number: int,
        question: Consult,
        stop: Callable[[], bool],
    ) -> Drafted:
        """Ask the question of this number, or take the answer that was recorded."""
        if drafter not in self.drafters:
            made = drafter_of(self._settings, drafter)
            assert made is not None  # noqa: S101 (no strategy consults `none` or `queue`)
            self.drafters[drafter] = made
        here, artifacts = self._settings, None
        if here.planning_debug_dir:
            validation = question.validation_mode or here.planning_validation_mode
            modes = {"validation": validation, "schema": schema_mode(here, drafter, question)}
            artifacts = Artifacts(here.planning_debug_dir, modes, secrets_of(here))
        recorded = RecordedDrafter(self._client, partition, self.drafters[drafter], artifacts, drafter)
        model = here.llm_model if drafter == "http" and here.llm_model else ""
        about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model} if model else {}
        about = about or {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": drafter}
        with tracing.span(f"chat {model}" if model else f"invoke_agent {drafter}", SpanKind.CLIENT, attributes=about):
            said = recorded.ask(plan_id, number, question, stop)
            tracing.add({"planner.tokens": said.tokens, "planner.answered": said.error is None})
            return said


NONE = "none"
QUEUE = "queue"
USUAL = {GoalKind.TASK: NONE, GoalKind.CAMPAIGN: QUEUE, GoalKind.EVOLUTION: QUEUE}  # the kinds that can use one


def setting_of(goal: Goal, settings: Settings) -> Setting | Rejected:
    """Say who drafts for `goal`, with which options; Rejected where the goal cannot have whom it asks for."""
    drafter = choose(goal.kind, goal.drafter, settings)
    if isinstance(drafter, FieldError):
        return reject(drafter.code, (drafter,))
    return Setting(drafter=drafter, options=settings.planning, forbidden=settings.forbidden)


def choose(kind: GoalKind, asked: str | None, settings: Settings) -> str | FieldError:
    """Name the drafter of a goal of `kind`, or say why it cannot have one.

    That is the one that the goal asks for among those that the operator enabled, else the kind's default.
    """
    if kind not in USUAL:
        return NONE if asked in (None, NONE) else _refusal(f"A goal of the kind {kind} is planned without a drafter")
    name = asked or settings.drafter or USUAL[kind]
    enabled = (NONE, *(each for each in settings.drafters if each != NONE))
    if name in enabled:
        return name
    what = f"The drafter {fit(name, 64)} is" if asked else f"The drafter {name} of the kind {kind} is"
    return _refusal(f"{what} not enabled here; there are {', '.join(enabled)}")


def _refusal(sentence: str) -> FieldError:
    return FieldError(pointer="/drafter", code="drafter_not_enabled", message=f"{sentence}.")


def schema_mode(settings: Settings, drafter: str, question: Consult) -> str:
    """Say how `drafter` is told the schema of a question: native, prompt, or none where there is none."""
    if question.schema is None:
        return "none"
    if settings.planning_schema_mode != "auto":
        return settings.planning_schema_mode
    has_place = any(place in word for word in settings.cli_command for place in ("{schema_file}", "{schema}"))
    return "prompt" if drafter == "cli" and not has_place else "native"
