"""An `evolution`: a plan that is drafted from a git history, refused, repaired, and measured at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.demo.story import Answer, Change, Commit, DemoFailed, Spec, Story

if TYPE_CHECKING:
    from worker.demo.session import Session

BASE, *INSPIRATIONS = ("main", "index", "remember")
METRIC = {"name": "looked_at", "unit": "titles", "higher_is_better": False}
YARDSTICK = "evaluate.py"
QUERIES = 20  # different queries of the evaluation
MOST = 40  # answers that the last commit of `remember` keeps


def answer(spec: Spec) -> Answer:
    """Return the answer to a step: a draft of the plan, at first one that is refused, or the changes of the step."""
    failed = spec["context"]["previous_failure"] is not None
    if spec["controller_task_spec"]["type"] == "DRAFT":
        draft, steps = STORY.data["mended" if failed else "bold"], STORY.data["steps"]
        planned = [{"id": name, **steps[name], "dependencies": after} for name, after in draft.items()]
        return Answer(report={"output": {**STORY.data["plan"], "steps": planned}})
    attempts = STORY.data["attempts"][spec["step_id"]]
    return Answer(STORY.changes(attempts[-1 if failed else 0]), {"patch_cycles": 1})


def _history() -> list[Commit]:
    """Return the story's commits, with the branch `remember` before the last one.

    Each commit of this branch keeps the answers to one query more.
    """
    *first, last = STORY.commits
    return [*first, *map(_remember, range(1, MOST + 1)), last]


def _remember(number: int) -> Commit:
    one_more = Change("shop/search.py", f">= {number}:", f">= {number - 1}:")
    if number < QUERIES:
        found = "No change: every query comes again too late."
    else:
        found = "One title in five is looked at." if number == QUERIES else "Looks at as many titles as before."
    return Commit(
        branch="remember",
        author="evolver <evolver@shop.example>",
        day=(date(2026, 4, 1) + timedelta(number - 1)).isoformat(),
        subject=f"Keep the answers to {number} queries",
        body=f"{number} answers. {found}",
        changes=STORY.edits["remember"] if number == 1 else [one_more],
    )


def play(session: Session) -> None:
    """Play the story."""
    history = _history()
    session.make_repository("A git history with two branches", f"{len(history)} commits, {BASE} at {{commit}}", history)
    with session.step(f"{YARDSTICK} on {', '.join((BASE, *INSPIRATIONS))}") as step:
        values = {tip: _evaluate(session, tip) for tip in (BASE, *INSPIRATIONS)}
        step.result = f"{', '.join(f'{value:g}' for value in values.values())} titles a query"
    with session.step("A Celery worker") as step:
        session.fleet.start_worker()
        step.result = "which asks no model: the draft is a step"
    with session.step("An evolution goal with commit cards from git log") as step:
        step.result = session.send_goal(_goal(session, values))
        (spec,) = session.wait("the step that drafts", session.step_specs)
        trajectory = spec["input"]["prompt"].rpartition("| Trajectory (unique vs base):")[2]
        trajectory = trajectory.partition("\n| Key files:")[0].replace("\n| ", "\n").strip()
        session.show_page("In the prompt: how an inspiration came about", trajectory)
    with session.step("Two controllers") as step:
        session.start_controllers()
        step.result = "with a scripted agent that plans too boldly at first"
    document = session.follow("{state}: {attempts} attempts at {steps} steps, one of them the draft").document
    if document["attempts"] != 2:
        raise DemoFailed(f"The plan was drafted at attempt {document['attempts']}; the first should be refused.")
    session.show_page("The first draft was refused", "\n".join(session.watch().refused))
    with session.step(f"pytest and {YARDSTICK} on the plan's branch") as step:
        values["the plan's branch"] = value = _evaluate(session, session.branch)
        step.result = f"all {session.test_branch(_place(session, session.branch))} tests pass, {value:g} titles a query"
    session.show_page("The plan", "\n".join(_summary_of(document["plan"])))
    lines = (f"{tip:<18} {each:>4g} titles a query" for tip, each in values.items())
    session.show_page("The evaluation", "\n".join(lines))


def _place(session: Session, tip: str) -> Path:
    return session.place(f"at-{tip.replace('/', '-')}")


def _evaluate(session: Session, tip: str) -> float:
    """Return the measured value of a branch."""
    from worker.demo import repository

    place = _place(session, tip)
    repository.check_out(session.root, tip, place)
    ended = repository.run_python(place, YARDSTICK)
    if ended.exit_code:
        raise DemoFailed(f"{YARDSTICK} failed on {tip}: {ended.stderr}")
    return float(ended.stdout)


def _goal(session: Session, values: Mapping[str, float]) -> dict[str, Any]:
    """Return the goal with all data for its drafter: cards, measurements, and summaries of blocks."""
    from worker.sources.commit_cards import blocks, commit_cards, commit_context

    base, *inspirations = (
        commit_context(session.root, tip, metrics=[METRIC | {"value": value}]) for tip, value in values.items()
    )
    cards = commit_cards(session.root, *values)
    first = cards[-1]["commit_hash"]
    evolution = {
        "base": base,
        "inspirations": inspirations,
        "commit_cards": cards,
        "experiment_root": first,
        "chunk_summaries": [
            _summary(block) for tip in inspirations for block in blocks(cards, first, tip["commit_hash"])
        ],
        **STORY.data["criteria"],
    }
    context = session.context(language="python", test_command="pytest")
    return {**STORY.data["goal"], "context": context, "evolution": evolution}


def _summary(block: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of a block; a real experiment would have asked a model once and stored its answer."""
    first, last = block[0], block[-1]
    return {
        "start_commit_hash": first["commit_hash"],
        "end_commit_hash": last["commit_hash"],
        "block_size": len(block),
        "summary": f"From '{first['subject']}' to '{last['subject']}'. {last['change_summary']}",
    }


def _summary_of(plan: Mapping[str, Any]) -> Iterator[str]:
    yield plan["summary"]
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {step['step_id']}: {step['title']} ({', '.join(step['files'])})"
    yield f"If all of it fails: {plan['fallback_plan']}"


STORY = Story("evolution", play, answer)
