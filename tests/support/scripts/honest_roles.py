"""An agent that plays all roles of a reviewed plan well, and knows only the prompt of each step.

It reads the prompt on its standard input, as any agent CLI does, and answers in prose around fenced JSON. Every third
step begins with a mistake, and FIRST gives the first of them; FOLDER counts the steps. With `--strict` it writes like a
model that must follow this schema. It runs as a separate program: `planner demo --kind reviewed_plan --agent "python
honest_roles.py FOLDER FIRST [--strict SCHEMA]"`.
"""

from __future__ import annotations

import fcntl
import json
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from jsonschema import Draft202012Validator

from tests.support.structured_output import written
from worker.demo.stories import reviewed_plan as craft

EVERY = 3  # step begins with a mistake
AGAIN = "# Why the last attempt failed"
PATCHES = "You may change only these files"
PHASES = {  # what a reviewer is asked to break down
    "the review of the design": "plan-design-qr",
    "the review of the diffs": "plan-code-qr",
    "the review of the documentation": "plan-docs-qr",
    "the review of the code as it is now": "impl-code-qr",
    "the review of the documents": "impl-docs-qr",
}
ROLES = {
    "the architect": craft.architect,
    "a developer": craft.developer,
    "the technical writer": craft.writer,
    "the only reviewer": craft.reviewer,
}


def sections(prompt: str) -> dict[str, str]:
    """Return the text below each title of a prompt, without the marks of quoted data."""
    found = {}
    for part in ("\n" + prompt).split("\n# ")[1:]:
        title, _, text = part.partition("\n")
        quoted = [line.removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
        found[title.partition(" (from")[0]] = "\n".join(quoted) or text.strip()
    return found


def understood(prompt: str, told: dict[str, str]) -> dict[str, Any]:
    """Translate a prompt into the spec that the functions of the craft take."""
    documents = {"plan": "plan.json as it is now", "outcomes": "The results of the milestones so far"}
    documents["milestone"] = "The milestone, with its reasons and dependencies"
    given = {name: json.loads(told[title]) for name, title in documents.items() if title in told}
    task = told["What to do"]
    phase = next((name for words, name in PHASES.items() if words in task), None)
    step = "reconcile" if task.startswith("Lay plan and code") else phase
    return {"mode": "patch" if files_of(prompt) else "read_only", "step_id": step, "phase": phase, "input": given}


def files_of(prompt: str) -> list[Path]:
    """List the files that a prompt allows to be changed; none of a step that reads."""
    lines = prompt.partition(PATCHES)[2].splitlines()[1:]
    return [Path(line.removeprefix("| - ")) for line in takewhile(lambda line: line.startswith("| - "), lines)]


def errs(folder: Path, prompt: str, first: int) -> bool:
    """Return whether the agent begins this step with a mistake."""
    if AGAIN in prompt:
        return False
    with (folder / "steps").open("a+") as steps:
        fcntl.flock(steps, fcntl.LOCK_EX)
        steps.seek(0)
        number = len(steps.readlines()) + 1
        steps.write(f"{number}\n")
    return number % EVERY == first % EVERY


def mistake(files: list[Path], answer: Any, number: int) -> str:
    """Make one mistake.

    For files it is code that does not compile, or no change; otherwise an answer that breaks a rule, or no answer.
    """
    if files:
        if files[0].suffix == ".py":
            files[0].write_text("def half(\n")
        return "It should work."
    wrong = [
        "I had a look, and everything is fine as it is.",
        json.dumps({name: each[:1] * 2 if isinstance(each, list) else each for name, each in answer.items()}),
        json.dumps({"answer": answer}),
    ]
    return wrong[number % len(wrong)]


def main(folder: Path, first: int, form: Any) -> None:
    """Do the step on standard input."""
    prompt = sys.stdin.read()
    told = sections(prompt)
    schema = json.loads(prompt.rpartition("Its schema:\n")[2].splitlines()[0].removeprefix("| "))
    role = next(each for words, each in ROLES.items() if prompt.find(f"You are {words} of a plan") >= 0)
    spec = understood(prompt, told)
    if errs(folder, prompt, first):
        answer = None if spec["mode"] == "patch" else role(spec)
        with (folder / "mistakes").open("a+") as mistakes:
            mistakes.seek(0)
            number = len(mistakes.readlines())
            mistakes.write(told["What to do"][:60] + "\n")
        sys.stdout.write(mistake(files_of(prompt), answer, number))
        return
    answer = role(spec)
    if answer is None:
        answer = {"summary": "The plan's change is made.", "deviations": []}
    Draft202012Validator(schema).validate(answer)
    if form:
        answer = written(answer, form)
        Draft202012Validator(form).validate(answer)
        sys.stdout.write(json.dumps(answer))
        return
    sys.stdout.write(
        f"I did what was asked.\n\n```json\n{json.dumps(answer, indent=1)}\n```\nTell me about {{more}}.\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[4]) if sys.argv[3:4] == ["--strict"] else None)
