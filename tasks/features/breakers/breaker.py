"""The breaker of a repository: when it trips, when it lets a step run, and when it closes; pure functions.

Many plans that fail alike have one cause, such as a broken base, and any budget spent on it is wasted. The counted
failures are stored with the plans of the repository, per tenant. `decide` returns the next action. The caller does it
and asks again, until it has to wait.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import StepState
from schemas.command import Command, CommandName, Scope
from tasks.base.series import series_name
from tasks.plan.changeset import CountedFailure, ProbeNews
from tasks.plan.snapshot import StandingCommand

ACTOR = "breaker"
STARTED, DONE, FAILED = "started", "done", "failed"  # a plan's news of the probe
# Prefix of its pause's name among bulk commands in force; no command has such a scope.
PAUSED = f"{CommandName.PAUSE.value} breaker:"
GRACE_MS = 60_000  # after it another plan is chosen to start its step
LOOK_MS = 30_000  # between two looks for a plan with a step to run
LONGEST_MS = 4 * 3_600_000  # a probe without news for so long counts as failed
MAY_HEAL = (StepState.ACTIVE, StepState.PENDING, StepState.BLOCKED)
MAX_PLANS = 8  # that failed alike and are asked first
SHOWN = "the step that was let through succeeded"
TURNED_OFF = "breakers are turned off"
NO_PLAN = "no plan of the repository has a step left to try"


class Terms(NamedTuple):
    """The thresholds that trip a breaker, and the time between two probes (ms); with 0 `plans` it never trips.

    A breaker trips if at least `plans` plans failed alike within `window_ms`, with at least this `share` of all
    failures.
    """

    plans: int = 5
    share: float = 0.6
    window_ms: int = 900_000
    probe_ms: int = 600_000


class Failure(NamedTuple):
    """A failure of a plan of the repository, with the time when it was counted (ms)."""

    at: int
    about: CountedFailure

    @property
    def step(self) -> tuple[str, str]:
        """The plan and the step of the failure."""
        return self.about.plan_id, self.about.step_id


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker that has tripped. `id` is the id of the pause; times are in ms.

    `verifies` is true if steps with a verification failed; then only the success of such a step closes the breaker.
    `due` is the time of the next probe. Since `given`, `plan` has the probe with this `token`; the plans in `tried` had
    a probe before. `first` is the plan that gets the next probe: its last probe succeeded without a verification.
    """

    id: str
    tenant: str
    repo: str
    signature: str
    why: str
    at: int
    verifies: bool
    plans: tuple[str, ...]
    due: int
    number: int = 0
    plan: str = ""
    token: str = ""
    given: int = 0
    tried: tuple[str, ...] = ()
    first: str = ""
    told: bool = False  # whether the plans were reminded of the pause
    closing: bool = False  # the pause is lifted, and the plans are to be reminded of that
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def decode(cls, raw: bytes) -> Breaker:
        """Decode the output of `encode`, of this version or a newer one."""
        record = codec.loads(raw)
        names = cls.__slots__
        known = {name: value for name, value in record.items() if name in names}
        unknown = {name: value for name, value in record.items() if name not in names}
        return cls(**{**known, "plans": tuple(record["plans"]), "tried": tuple(record["tried"])}, unknown=unknown)

    def encode(self) -> bytes:
        """Return the breaker as JSON."""
        record = {name: getattr(self, name) for name in self.__slots__ if name != "unknown"}
        return codec.dumps({**record, **self.unknown})

    @property
    def series(self) -> str:
        """The name under which figures of the breaker's tenant and repository are stored."""
        return series_name(self.tenant, self.repo)

    def pause(self, terms: Terms) -> bytes:
        """Return the record of the pause as plans read it; see bulk_commands.py."""
        every = terms.probe_ms // 60_000
        reason = f"{self.why}; a step is let through every {every} min, and its success lifts this"
        record: dict[str, Any] = {"actor": ACTOR, "reason": reason, "command_id": self.id, "until": 0}
        if self.token:
            record["probe"] = [self.plan, self.token]
        return codec.dumps({**record, "tenant": self.tenant, "repo": self.repo})


class Evidence(NamedTuple):
    """Later states of the failed steps, and times (ms) of verified successes in their repository.

    The keys of `states` are pairs of plan and step. A plan that is gone has no state.
    """

    states: Mapping[tuple[str, str], str]
    succeeded: Sequence[int] = ()

    def state_of(self, failure: Failure) -> str:
        """Return the present state of the failed step."""
        return self.states.get(failure.step, "")


class What(StrEnum):
    """The next action about a breaker."""

    NOTHING = "nothing"  # nothing counts any more
    WEIGH = "weigh"  # enough failed alike: it trips, unless other ends of the plans count against it
    TRIP = "trip"
    REMIND = "remind"  # the plans of the repository, of the pause or of its end
    FORGET = "forget"  # a person has lifted the pause, or its end was reported
    CHANGE = "change"
    GIVE = "give"  # a plan is to be chosen, which may start a step
    CLOSE = "close"
    WAIT = "wait"


class Next(NamedTuple):
    """The next action, the new breaker, the time of the next look (ms), and the reason of a close."""

    what: What
    breaker: Breaker | None = None
    look: int = 0
    why: str = ""


class Seen(NamedTuple):
    """The state of a repository: its breaker if it has tripped, whether it is paused, and the result of a probe.

    `evidence` is None until it is read, which happens after enough plans failed alike.
    """

    breaker: Breaker | None
    stands: bool
    failures: Sequence[Failure]
    probe: tuple[int, ProbeNews] | None = None
    evidence: Evidence | None = None


def _no_weight(_: Sequence[Failure]) -> int:
    return 0


def decide(seen: Seen, whose: tuple[str, str], now: int, terms: Terms) -> Next:
    """Return the next action about a repository; `whose` are its tenant and its name."""
    breaker = seen.breaker
    if breaker is None:
        tripped, what = find_trip(seen.failures, whose, now, terms), What.WEIGH
        if tripped and seen.evidence is not None:
            tripped, what = find_broken(seen.failures, seen.evidence, whose, now, terms), What.TRIP
        return Next(what, tripped, now) if tripped else Next(What.NOTHING)
    if breaker.closing:
        return Next(What.REMIND, replace(breaker, told=True), now) if not breaker.told else Next(What.FORGET)
    if not seen.stands:
        return Next(What.FORGET)
    if not terms.plans:
        return close(breaker, TURNED_OFF, now)
    if not breaker.told:
        return Next(What.REMIND, replace(breaker, told=True), now)
    if breaker.token:
        return _follow(breaker, seen.probe, now, terms)
    if now < breaker.due:
        return Next(What.WAIT, look=breaker.due)
    return Next(What.GIVE, breaker, now + LOOK_MS)


def _follow(breaker: Breaker, probe: tuple[int, ProbeNews] | None, now: int, terms: Terms) -> Next:
    """Return the next action of a breaker whose probe a plan has; `probe` is the last report about a probe."""
    tried = (*(plan for plan in breaker.tried if plan != breaker.plan), breaker.plan)[-MAX_PLANS:]
    free = replace(breaker, plan="", token="", given=0, tried=tried, first="")
    if probe is None or probe[1].token != breaker.token:
        if now < breaker.given + GRACE_MS:
            return Next(What.WAIT, look=breaker.given + GRACE_MS)
        return Next(What.CHANGE, replace(free, due=now), now)
    at, news = probe
    if news.what == STARTED:
        if now < at + LONGEST_MS:
            return Next(What.WAIT, look=min(now + LOOK_MS, at + LONGEST_MS))
        return Next(What.CHANGE, replace(free, due=now + terms.probe_ms), now)
    if news.what != DONE:
        return Next(What.CHANGE, replace(free, due=at + terms.probe_ms), now)
    if breaker.verifies and not news.verifies:  # no proof: the plan goes on to a step with a verification
        return Next(What.CHANGE, replace(free, due=now, first=breaker.plan), now)
    return close(breaker, SHOWN, now)


def close(breaker: Breaker, why: str, now: int) -> Next:
    """Return the action that lifts the pause; failures are counted from zero afterwards."""
    return Next(What.CLOSE, replace(breaker, closing=True, told=False), now, why)


def next_probe(breaker: Breaker, now: int) -> int | None:
    """Return the time of the next probe (ms); None while there is one, or while the pause is being lifted."""
    return None if breaker.token or breaker.closing else max(breaker.due, now)


def find_trip(
    failures: Sequence[Failure],
    whose: tuple[str, str],
    now: int,
    terms: Terms,
    weigh: Callable[[Sequence[Failure]], int] = _no_weight,
) -> Breaker | None:
    """Return the breaker that trips by the most frequent signature; None if too few failures or plans have it.

    `weigh` gets the failures that are alike, and returns how many other outcomes count against them.
    """
    recent = [each for each in failures if now - terms.window_ms < each.at]
    alike: dict[str, list[Failure]] = defaultdict(list)
    for each in recent:
        if each.about.signature:
            alike[each.about.signature].append(each)
    if not alike or not terms.plans:
        return None
    signature, found = max(alike.items(), key=lambda pair: (len(pair[1]), pair[0]))
    plans = tuple(dict.fromkeys(each.about.plan_id for each in found))
    if len(plans) < terms.plans or len(found) < terms.share * (len(recent) + weigh(found)):
        return None
    last = found[-1].about
    said = f": {last.told}" if last.told else ""
    why = (
        f"{len(found)} of {len(recent)} failures of {len(plans)} plans in {terms.window_ms // 60_000} min were alike "
        f"({last.category}, signature {signature}){said}"
    )
    return Breaker(
        id=f"breaker-{signature}-{now}",
        tenant=whose[0],
        repo=whose[1],
        signature=signature,
        why=why,
        at=now,
        verifies=any(each.about.verifies for each in found),
        plans=plans[-MAX_PLANS:],
        due=now + terms.probe_ms,
    )


def find_broken(
    failures: Sequence[Failure], evidence: Evidence, whose: tuple[str, str], now: int, terms: Terms
) -> Breaker | None:
    """Return the breaker that trips if `evidence` also counts; None if none trips.

    A failure does not count if its step is done by now. First, each success of the window counts against the failures.
    If nothing trips so, only steps that failed twice or ended can trip the breaker. Then only the successes after the
    first such failure count: earlier ones show nothing about a later break.
    """
    left = [each for each in failures if now - terms.window_ms < each.at and evidence.state_of(each) != StepState.DONE]
    known = [at for at in evidence.succeeded if now - terms.window_ms < at]
    if tripped := find_trip(left, whose, now, terms, lambda _: len(known)):
        return tripped
    tried = Counter(each.step for each in left)
    stuck = [each for each in left if tried[each.step] > 1 or evidence.state_of(each) not in MAY_HEAL]
    others = len(left) - len(stuck)
    return find_trip(stuck, whose, now, terms, lambda alike: others + sum(at > alike[0].at for at in known))


def give(breaker: Breaker, able: Sequence[str], now: int) -> Breaker | None:
    """Give the probe to one of the `able` plans; None if there is none.

    The plan `first` comes before all others. Next come plans that had no probe yet, then plans whose probe was the
    longest ago. Among these, plans that failed alike come first.
    """
    if not able:
        return None
    turn = {plan: number for number, plan in enumerate(breaker.tried, 1)}
    plan = min(able, key=lambda plan: (plan != breaker.first, turn.get(plan, 0), plan not in breaker.plans, plan))
    number = breaker.number + 1
    return replace(breaker, plan=plan, token=f"{breaker.id}.{number}", given=now, number=number)


def name_pause(tenant: str, repo: str) -> str:
    """Name the record of the pause of a tenant's repository."""
    return f"{PAUSED}{series_name(tenant, repo)}"


def find_pause(records: Mapping[bytes, bytes], tenant: str, repo: str) -> StandingCommand | None:
    """Return the breaker's pause of a repository as its plans read it; None if `records` has none."""
    raw = records.get(name_pause(tenant, repo).encode())
    scope = f"repository:{repo} of {tenant}"
    return StandingCommand.read(CommandName.PAUSE.value, scope, codec.loads(raw)) if raw else None


def find_lifted(records: Mapping[bytes, bytes], command: Command) -> list[str]:
    """Return the names of the breaker's pauses that a resume lifts: of each repository in its scope."""
    paused = [(name.decode(), codec.loads(raw)) for name, raw in records.items() if name.startswith(PAUSED.encode())]
    field = {Scope.REPOSITORY: "repo", Scope.TENANT: "tenant"}.get(command.scope)
    return [
        name
        for name, record in paused
        if command.scope is Scope.ALL or (field is not None and record[field] == command.target)
    ]


def find_probe(records: Mapping[bytes, bytes], tenant: str, repo: str, plan_id: str) -> str:
    """Return the token of the probe if this plan has it, else an empty text."""
    raw = records.get(name_pause(tenant, repo).encode())
    plan, token = codec.loads(raw).get("probe", ("", "")) if raw else ("", "")
    return str(token) if plan == plan_id else ""
