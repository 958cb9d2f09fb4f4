"""Advice for plans whose budget or time is used up."""

from __future__ import annotations

from tasks.policy.advice_facts import (
    AGAIN,
    MOST,
    MOST_NAMED,
    OPEN,
    OVER,
    Facts,
    higher_limit,
    listing,
    raise_limit,
    sentence,
)
from tasks.rules import budget


def advise_on_budget(facts: Facts) -> str:
    """Return the budget to raise, its new value, and the attempts that used most of it."""
    name = facts.evidence.get("limit_name")
    if name == "category":
        return _budget_of_an_attempt(facts)
    if name not in budget.BUDGETS:
        return f"{AGAIN[:1].upper()}{AGAIN[1:]} with a higher limit for the budget that is used up."
    plan = facts.plan
    spent, counts = plan.spent[name], plan.counts
    unbooked = plan.spending.unbooked if name == "tokens" else 0
    over, left = sum(counts.get(state, 0) for state in OVER), sum(counts.get(state, 0) for state in OPEN)
    each = -(-(spent + unbooked) // over) if over else spent
    if name in ("tokens", "patch_cycles"):
        each = max([each, *(step.facts["estimate"][name] for step in facts.ready if step.spec is not None)])
        spent += plan.spending.cut_short.get(name, 0)
    wanted = spent + unbooked + max(1, 1 if name == "failing_outcomes" else each * left)
    least = spent + unbooked + 1
    told = raise_limit(facts, name, min(wanted, max(least, int(MOST[name]))))
    if not told:
        return f"The attempts used more than the highest limit allows: split the goal. {_spenders(facts)}".rstrip()
    about = "" if name == "failing_outcomes" else f" ({left} of its steps had not ended)"
    return f"{sentence(f'{told}{about} and {AGAIN}')} {_spenders(facts)}".rstrip()


def _spenders(facts: Facts) -> str:
    """Return the attempts that used most of the exhausted budget, as a text."""
    if facts.evidence.get("limit_name") == "failing_outcomes":
        return f"Read why {listing(dict.fromkeys(entry[0] for entry in facts.failed))} failed." if facts.failed else ""
    spenders = facts.evidence.get("spent_by")
    if spenders is None:
        return ""
    if not spenders:
        return f"No single attempt used a {budget.SPENDER_SHARE}th of it."
    most = (f"attempt {each['attempt']} of {each['step_id']} ({each['used']})" for each in spenders[:MOST_NAMED])
    return f"Most was used by {', '.join(most)}."


def _budget_of_an_attempt(facts: Facts) -> str:
    """Return advice for an attempt whose controller reported that its budget did not suffice."""
    step = facts.step
    held = facts.held.get(step.step_id) if step else None
    if step is None or held is None:
        return f"Give the step that ran out more, and {AGAIN}."
    estimate = step.facts["estimate"]
    most = facts.policy.attempts[step.facts["risk_level"]].tokens
    wanted = estimate["tokens"] if most is None else min(most, estimate["tokens"])
    had = f"the attempt had {held.tokens} tokens and {held.patch_cycles} patch cycles"
    limit, short = facts.plan.limits["tokens"], wanted - held.tokens
    if short > 0 and limit is not None and limit + short <= MOST["tokens"]:
        return (
            f"{sentence(higher_limit(facts, 'tokens', limit + short))} {step.step_id} is expected to use "
            f"{estimate['tokens']}, and {had}."
        )
    if wanted < estimate["tokens"]:
        return (
            f"Have an operator apply a policy with more than {most} tokens for attempts at risk "
            f"{step.facts['risk_level']}, or give {step.step_id} less to do. "
            f"It is expected to use {estimate['tokens']}, and {had}."
        )
    return (
        f"Supply the steps and give {step.step_id} a higher estimate, or less to do: {had}, as much as it was "
        "expected to use."
    )


def advise_on_hosts(facts: Facts) -> str:
    """Return the controllers whose hosts need a repair; their reasons are in the evidence."""
    who = listing(dict.fromkeys(each["controller"] for each in facts.evidence.get("released", ())))
    return f"Repair the hosts of {who or 'the controllers'} as the reasons ask: {AGAIN} once they can begin."


def advise_on_wall_clock(facts: Facts) -> str:
    """Return advice to give the plan more time; if no attempt could run, to start controllers or to repair hosts.

    Time that the plan was stopped does not count as a wait for controllers.
    """
    plan, took = facts.plan, int(facts.evidence.get("value") or 0)
    limit = plan.limits["wall_clock_s"] or 0
    untaken = {
        name: facts.now - attempt.at - max(0, facts.rested - attempt.lost)  # ms
        for name, attempt in facts.active.items()
        if not ((lease := facts.leases.get(name)) and lease.attempt == attempt.attempt and lease.claimed)
    }
    open_ = {*plan.backoffs, *facts.active, *(step.step_id for step in facts.ready)}
    if open_ and untaken.keys() == facts.active.keys() and open_ <= (plan.releases.counts or {}).keys():
        return advise_on_hosts(facts)
    untaken = {name: ms for name, ms in untaken.items() if ms >= 500 * limit}
    if untaken and untaken.keys() == facts.active.keys():
        queues = listing(sorted({facts.active[name].queue for name in untaken}))
        waited = max(untaken.values()) // 1000
        return (
            f"Start controllers for the queue {queues}: no controller took {listing(sorted(untaken))} in {waited} s. "
            f"Then {AGAIN}."
        )
    counts = plan.counts
    over, total = sum(counts.get(state, 0) for state in OVER), sum(counts.values())
    wanted = -(-took * total // (60 * over)) * 60 if over else 2 * took
    wanted = min(max(wanted, took + 60), int(MOST["wall_clock_s"]))
    split = "split the goal, or have more of it done at once (limits.max_parallel)"
    if wanted <= took:
        return sentence(split)
    raised = higher_limit(facts, "wall_clock_s", wanted)
    about = f"{over} of {total} steps had ended after {took} s, time that was given back left out"
    return sentence(f"{raised} and {AGAIN}: {about}")
