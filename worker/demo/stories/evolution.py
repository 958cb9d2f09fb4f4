"""An `evolution`: a plan drafted from a git history, refused and mended, and measured in the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.demo.story import ADA, Answer, Commit, DemoFailed, Spec, Story, pyproject

if TYPE_CHECKING:
    from worker.demo.session import Session

GOAL = "Make a query look at fewer titles"
BASE, *INSPIRATIONS = ("main", "index", "remember")
METRIC = {"name": "looked_at", "unit": "titles", "higher_is_better": False}
SEARCH, WORDS, TESTS, YARDSTICK = "shop/search.py", "shop/words.py", "tests/test_search.py", "evaluate.py"
ALLOWED = (SEARCH, TESTS)  # never the yardstick
GRACE, EVOLVER = "Grace <grace@shop.example>", "evolver <evolver@shop.example>"
QUERIES = 20  # that differ, of the evaluation
MOST = 40  # answers that the last commit of `remember` keeps

SET_UP = "        self.looked_at = 0\n"
FIND = """\
        return [number for number in range(len(self.titles)) if self._has(number, wanted)]
"""
INDEX = """\
        self._by_word = {}
        for number, title in enumerate(self.titles):
            for word in set(words(title)):
                self._by_word.setdefault(word, []).append(number)
"""
GUESS = """\
        rarest = min((self._by_word[word] for word in wanted), key=len, default=range(len(self.titles)))
        return [number for number in rarest if self._has(number, wanted)]
"""
FIX = GUESS.replace("self._by_word[word]", "self._by_word.get(word, ())")

WORDS_BEFORE = '"""Texts as words."""\n\n\ndef words(text):\n    return text.split()\n'
WORDS_AFTER = WORDS_BEFORE.replace("text.split()", "text.lower().split()  # upper and lower case are one")


def search(set_up: str = "", find: str = FIND) -> str:
    """Write the module that searches."""
    return f'''\
"""Finds products by the words of their titles."""

from shop.words import words


class Search:
    """Searches titles; `looked_at` counts how many it had to look at."""

    def __init__(self, titles):
        self.titles = list(titles)
{SET_UP}{set_up}
    def find(self, query):
        """Return the numbers of the titles that have every word of `query`."""
        wanted = words(query)
{find}
    def _has(self, number, wanted):
        self.looked_at += 1
        return set(wanted) <= set(words(self.titles[number]))
'''


def remembering(most: int, find: str = FIND) -> tuple[str, str]:
    """Write how the last `most` answers are kept: what sets it up, and what finds."""
    kept = find.replace("        return", "            self._known[key] =")
    kept = kept.replace("        rarest", "            rarest")
    return (
        "        self._known = {}\n",
        f"""\
        key = tuple(sorted(wanted))
        if key not in self._known:
            if len(self._known) >= {most}:
                self._known.pop(next(iter(self._known)))
{kept}        return list(self._known[key])
""",
    )


BEFORE = """\
from shop.search import Search

SEARCH = Search(["red shoe", "Blue shoe", "blue suede shoe"])


def test_every_word_has_to_be_there():
    assert SEARCH.find("blue shoe") == [1, 2]


def test_a_word_that_no_title_has_finds_nothing():
    assert SEARCH.find("green shoe") == []


def test_a_query_without_words_finds_everything():
    assert SEARCH.find("") == [0, 1, 2]
"""
MORE = """\


def test_an_answer_can_be_changed_without_changing_the_next_one():
    SEARCH.find("red shoe").clear()

    assert SEARCH.find("red shoe") == [0]


def test_a_query_that_comes_again_looks_at_nothing():
    search = Search(["red shoe", "red hat"])
    search.find("red hat")
    before = search.looked_at

    assert search.find("hat red") == [1]
    assert search.looked_at == before
"""
FILES = {
    "pyproject.toml": pyproject("shop", "0.3.0"),
    "shop/__init__.py": '"""A small shop."""\n',
    WORDS: WORDS_BEFORE,
    SEARCH: search(),
    YARDSTICK: '''\
"""Prints how many titles a query makes the search look at, on average."""

from shop.search import Search

COLOURS, THINGS = ("red", "green", "blue", "black", "white"), ("shoe", "shirt", "scarf", "hat")
TITLES = [f"{colour} {thing} {size}" for colour in COLOURS for thing in THINGS for size in range(20)]
QUERIES = [f"{colour} {thing}" for _ in range(5) for thing in THINGS for colour in COLOURS]

search = Search(TITLES)
for query in QUERIES:
    search.find(query)
print(search.looked_at / len(QUERIES))
''',
    TESTS: BEFORE.replace("Blue", "blue"),
}


def _kept(most: int) -> str:
    if most < QUERIES:
        return "No change: every query comes again too late."
    return "One title in five is looked at." if most == QUERIES else "Looks at as many titles as before."


def _remember(number: int) -> Commit:
    day = f"2026-04-{number:02}" if number <= 30 else f"2026-05-{number - 30:02}"
    files = {SEARCH: search(*remembering(number))}
    subject, body = f"Keep the answers to {number} queries", f"{number} answers. {_kept(number)}"
    return Commit("remember", EVOLVER, day, subject, files, body)


LOOK_ONLY = "Look only at titles with the rarest word"
COMMITS = (
    Commit("main", ADA, "2026-03-02", "Search titles one by one", FILES),
    Commit("main", GRACE, "2026-03-09", "Upper and lower case are one", {WORDS: WORDS_AFTER, TESTS: BEFORE}),
    Commit("index", GRACE, "2026-03-16", "Number titles by word", {SEARCH: search(INDEX)}, "Nothing uses it yet."),
    Commit("index", GRACE, "2026-03-17", LOOK_ONLY, {SEARCH: search(INDEX, GUESS)}, "One title in five is looked at."),
    *map(_remember, range(1, MOST + 1)),
    Commit("main", ADA, "2026-05-20", "Say what it is for", {"README.md": "# Shop\n\nFinds products by words.\n"}),
)


# What the agent answers when it is asked for a plan, too bold at first and then mended; and what it does for the steps


def _planned(name: str, title: str, *actions: str, files: list[str], after: list[str], **more: Any) -> dict[str, Any]:
    """Write a step as the schema of the answer asks for it."""
    return {
        "id": name,
        "title": title,
        "intent": f"{title}, so that a query looks at fewer titles.",
        "actions": list(actions),
        "files": files,
        "dependencies": after,
        "validation": ["pytest"],
        **more,
    }


NUMBER = _planned(
    "number-titles",
    LOOK_ONLY,
    "Number the titles by word when the search is made.",
    "Have find look at the titles of its rarest word alone.",
    files=[SEARCH],
    after=[],
    risks=["A word that no title has breaks the branch that this comes from."],
)
REMEMBER = _planned(
    "keep-answers",
    f"Keep the answers to {QUERIES} queries",
    "Keep each answer under the words of its query, the oldest go first.",
    files=[SEARCH],
    after=["number-titles"],
)
PROVE = _planned(
    "prove-it",
    "Test that answers are kept, and are nobody's to change",
    "Test that a query which comes again looks at nothing.",
    "Test that changing an answer does not change the next one.",
    files=[TESTS],
    after=["keep-answers"],
)
CHEAPER = _planned(
    "ask-less",
    "Ask the evaluation fewer queries",
    "Have the evaluation ask queries that come again.",
    files=[YARDSTICK],
    after=["keep-answers"],
)


def _plan(*steps: dict[str, Any]) -> dict[str, Any]:
    """Write a plan around its steps."""
    return {
        "plan_summary": "Number titles by word, and keep the answers to as many queries as the evaluation has.",
        "rationale": "Both branches look at one title in five, each for a reason of its own: together it is one in 25.",
        "focus_metrics": ["looked_at"],
        "guardrails": ["find answers what it answered before."],
        "risks": ["Kept answers take memory."],
        "validation": ["pytest"],
        "steps": list(steps),
        "handoff_notes": [f"Keeping more than {QUERIES} answers brought nothing in 20 commits."],
        "fallback_plan": "Keep the answers alone: that branch passes every test.",
    }


BOLD = _plan(NUMBER, REMEMBER | {"dependencies": ["index"]}, CHEAPER)
MENDED = _plan(NUMBER, REMEMBER, PROVE)
SET_UP_KEPT, FIND_KEPT = remembering(QUERIES, FIX)
EDITS = {  # step -> what is done, and once that has failed
    "number-titles": (
        {SEARCH: [(SET_UP, SET_UP + INDEX), (FIND, GUESS)]},
        {SEARCH: [(SET_UP, SET_UP + INDEX), (FIND, FIX)]},
    ),
    "keep-answers": ({SEARCH: [(INDEX, INDEX + SET_UP_KEPT), (FIX, FIND_KEPT)]},),
    "prove-it": ({TESTS: [("", MORE)]},),
}


def answer(spec: Spec) -> Answer:
    """Draft the plan, or take over what the branches found."""
    failed = spec["context"]["previous_failure"] is not None
    if spec["controller_task_spec"]["type"] == "DRAFT":
        return Answer(report={"output": MENDED if failed else BOLD})
    attempts = EDITS[spec["step_id"]]
    return Answer(attempts[-1 if failed else 0], {"patch_cycles": 1})


def play(session: Session) -> None:
    """Play the story."""
    commits = f"{len(COMMITS)} commits, {BASE} at {{commit}}"
    session.make_repository("A git history with two branches", commits)
    with session.step(f"{YARDSTICK} on {', '.join((BASE, *INSPIRATIONS))}") as step:
        values = {tip: _evaluate(session, tip) for tip in (BASE, *INSPIRATIONS)}
        step.result = f"{', '.join(f'{value:g}' for value in values.values())} titles a query"
    with session.step("A Celery worker") as step:
        session.fleet.start_worker()
        step.result = "which asks no model: the draft is a step"
    with session.step("An evolution goal with commit cards from git log") as step:
        step.result = session.send_goal(_goal(session, values))
        (spec,) = session.wait("the step that drafts", session.step_specs)
        session.show_page("In the prompt: how an inspiration came about", _trajectory(spec["input"]["prompt"]))
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
    session.show_page(
        "The evaluation", "\n".join(f"{tip:<18} {each:>4g} titles a query" for tip, each in values.items())
    )


def _place(session: Session, tip: str) -> Path:
    return session.place(f"at-{tip.replace('/', '-')}")


def _evaluate(session: Session, tip: str) -> float:
    """Measure what a branch is worth."""
    from worker.demo import repository

    place = _place(session, tip)
    repository.check_out(session.root, tip, place)
    ended = repository.run_python(place, YARDSTICK)
    if ended.exit_code:
        raise DemoFailed(f"{YARDSTICK} failed on {tip}: {ended.stderr}")
    return float(ended.stdout)


def _goal(session: Session, values: Mapping[str, float]) -> dict[str, Any]:
    """Make the goal with all that its drafter is to know: cards, what was measured, and summaries of blocks."""
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
        "acceptance_criteria": ["Every test passes.", f"{YARDSTICK} prints less than 50."],
        "validation_mode": "strict",
    }
    context = session.context(language="python", test_command="pytest")
    return {"goal": GOAL, "kind": "evolution", "allowed_files": ALLOWED, "context": context, "evolution": evolution}


def _summary(block: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise a block, where a real experiment would have asked a model once and kept what it said."""
    first, last = block[0], block[-1]
    return {
        "start_commit_hash": first["commit_hash"],
        "end_commit_hash": last["commit_hash"],
        "block_size": len(block),
        "summary": f"From '{first['subject']}' to '{last['subject']}'. {last['change_summary']}",
    }


def _trajectory(prompt: str) -> str:
    """Cut the last trajectory out of a prompt."""
    section = prompt.rpartition("| Trajectory (unique vs base):")[2].partition("\n| Key files:")[0]
    return section.replace("\n| ", "\n").strip()


def _summary_of(plan: Mapping[str, Any]) -> Iterator[str]:
    yield plan["summary"]
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {step['step_id']}: {step['title']} ({', '.join(step['files'])})"
    yield f"If all of it fails: {plan['fallback_plan']}"


STORY = Story(
    summary="a plan that would have moved its own yardstick was refused, the mended one took the best of two branches.",
    repository="shop",
    commits=COMMITS,
    play=play,
    answer=answer,
)
