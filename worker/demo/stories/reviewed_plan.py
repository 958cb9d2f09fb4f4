"""A `reviewed_plan`: designed, reviewed, repaired, frozen, and executed in waves on a real repository."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.demo.story import Answer, DemoFailed, Spec, Story, apply_changes

if TYPE_CHECKING:
    from worker.demo.session import Session

Part = dict[str, Any]  # an object in the input of a step
Finding = tuple[str, str, str | None]  # scope, the checked rule, and the fault

README = Path("README.md")
CALL = re.compile(r"\b(\w+)\(\)")


# The four roles of the agent: each knows its craft, and only the part of the plan in its step


def architect(spec: Spec) -> Part:
    """Return the design of the plan, at first without the milestones' dependencies.

    After the review, return the dependencies that it missed.
    """
    plan = spec["input"]["plan"]
    if not plan["milestones"]:
        return {"operations": STORY.data["design"]}
    needs = {each["id"]: _needs(plan, each) for each in plan["milestones"]}
    return {
        "operations": [
            _set("milestone", each, depends_on=sorted(needs[each["id"]]))
            for each in plan["milestones"]
            if needs[each["id"]]
        ]
    }


def developer(spec: Spec) -> Part | None:
    """Return a diff for each intent of the plan; for a milestone, apply its diffs and the writer's docstrings."""
    if spec["mode"] == "read_only":
        intents = _all(spec["input"]["plan"], "code_intents")
        return {"operations": [_diff_of(owner, intent) for owner, intent in intents]}
    milestone = spec["input"]["milestone"]["milestone"]
    for change in milestone["code_changes"]:
        _git_apply(change["diff"]).check_returncode()
    source = Path(milestone["files"][0])
    for written in milestone["documentation"]["docstrings"]:
        head = re.compile(rf"^def {written['function']}\(.*:\n", re.M)
        docstring = f'    """{written["docstring"]}"""\n'
        source.write_text(head.sub(rf"\g<0>{docstring}", source.read_text()))
    return None


def writer(spec: Spec) -> Part | None:
    """Return the docstrings for the plan; after its milestones, add its reasons to the README."""
    plan = spec["input"]["plan"]
    if spec["mode"] == "read_only":
        return {"operations": [_documentation(each) for each in plan["milestones"]]}
    reasons = " ".join(f"{each['decision']}." for each in plan["planning_context"]["decision_log"])
    README.write_text(README.read_text() + STORY.data["note"].format(reasons=reasons))
    return None


def reviewer(spec: Spec) -> Part:
    """Return the findings of real checks of the plan or its files; at the end, compare the plan with its outcomes."""
    plan = spec["input"]["plan"]
    if spec["step_id"] == "reconcile":
        outcomes = spec["input"]["outcomes"]
        return {"milestones": [_judge(outcomes, each) for each in plan["milestones"]], "summary": "As planned."}
    items = []
    for number, (scope, check, wrong) in enumerate(CHECKS[spec["phase"]](plan), 1):
        status = {"status": "FAIL", "finding": wrong} if wrong else {"status": "PASS"}
        items.append({"id": f"qa-{number:03d}", "scope": scope, "check": check, "severity": "MUST", **status})
    return {"items": items, "verdict": "FAIL" if any("finding" in item for item in items) else "PASS"}


def _all(plan: Part, name: str) -> Iterator[tuple[str, Part]]:
    """Yield the parts under `name` of each milestone, each with its milestone's id."""
    yield from ((milestone["id"], part) for milestone in plan["milestones"] for part in milestone[name])


def _needs(plan: Part, milestone: Part) -> set[str]:
    """Return the ids of other milestones whose functions the intents of this milestone call."""
    makers = {intent["function"]: owner for owner, intent in _all(plan, "code_intents")}
    called = {name for intent in milestone["code_intents"] for name in CALL.findall(intent["behavior"])}
    return {makers[name] for name in called if name in makers} - {milestone["id"]}


def _diff_of(owner: str, intent: Part) -> Part:
    path = intent["file"]
    before = Path(path).read_text() if Path(path).exists() else ""
    after = apply_changes({path: before}, STORY.edits["vat"])[path]
    old = f"a/{path}" if before else "/dev/null"
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, f"b/{path}")
    value = {
        "milestone": owner,
        "intent_ref": intent["id"],
        "file": path,
        "diff": "".join(lines),
        "why_comments": [f"As {' and '.join(intent['decision_refs'])} says"],
    }
    return {"op": "add", "entity": "code_change", "id": intent["id"].replace("CI", "CC"), "value": value}


def _git_apply(diff: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run `git apply` with a diff in the current folder; the option `--check` only tests whether the diff applies."""
    argv = ["git", "apply", *options]
    return subprocess.run(argv, input=diff.encode(), capture_output=True, check=False)  # noqa: S603 - our own words


def _documentation(milestone: Part) -> Part:
    known = STORY.data["docstrings"]
    functions = [intent["function"] for intent in milestone["code_intents"] if intent["function"] in known]
    docstrings = [{"function": name, "docstring": known[name]} for name in functions]
    part = {"id": milestone["id"], "version": milestone["documentation"]["version"]}
    return _set("documentation", part, module_comment=milestone["name"], docstrings=docstrings)


def _set(entity: str, part: Part, **value: Any) -> Part:
    return {"op": "set", "entity": entity, "value": value, "id": part["id"], "version": part["version"]}


def _check_design(plan: Part) -> Iterator[Finding]:
    for each in plan["milestones"]:
        missing = sorted(_needs(plan, each) - set(each["depends_on"]))
        wrong = f"It calls functions of {' and '.join(missing)} and does not depend on them" if missing else None
        yield "*", f"{each['id']} comes after the milestones that it calls", wrong


def _check_code(plan: Part) -> Iterator[Finding]:
    for _, change in _all(plan, "code_changes"):
        wrong = _git_apply(change["diff"], "--check").stderr.decode()[:500] or None
        yield f"file:{change['file']}", f"{change['id']} applies to the code", wrong


def _check_docs(plan: Part) -> Iterator[Finding]:
    for each in plan["milestones"]:
        wrong = None if each["documentation"]["module_comment"] else "Nothing is written"
        yield "*", f"{each['id']} is documented", wrong


def _check_implementation(plan: Part) -> Iterator[Finding]:
    for _, intent in _all(plan, "code_intents"):
        wrong = None if _is_there(intent) else "It is not there"
        yield f"file:{intent['file']}", f"{intent['id']} is carried out", wrong


def _check_readme(plan: Part) -> Iterator[Finding]:
    text = README.read_text()
    for each in plan["planning_context"]["decision_log"]:
        wrong = None if each["decision"] in text else "The README does not name it"
        yield f"file:{README}", f"The README has {each['id']}", wrong


def _is_there(intent: Part) -> bool:
    path = Path(intent["file"])
    return path.exists() and f"def {intent['function'] or 'test_'}" in path.read_text()


def _judge(outcomes: Part, milestone: Part) -> Part:
    done = outcomes[milestone["id"]]["outcome"] == "DONE" and all(map(_is_there, milestone["code_intents"]))
    return {"id": milestone["id"], "outcome": "SATISFIED" if done else "NOT_SATISFIED"}


CHECKS: Mapping[str, Callable[[Part], Iterator[Finding]]] = {
    "plan-design-qr": _check_design,
    "plan-code-qr": _check_code,
    "plan-docs-qr": _check_docs,
    "impl-code-qr": _check_implementation,
    "impl-docs-qr": _check_readme,
}
ROLES: Mapping[str, Callable[[Spec], Part | None]] = {
    "architect": architect,
    "developer": developer,
    "technical-writer": writer,
    "quality-reviewer": reviewer,
}


def answer(spec: Spec) -> Answer:
    """Return the answer of the role that the step's queue belongs to; its changes are already made."""
    output = ROLES[spec["queue"]](spec)
    return Answer(report={"output": output}, characters=len(json.dumps(output)))


def play(session: Session) -> None:
    """Play the story."""
    session.make_repository("A git repository", f"{len(STORY.commits[0].files)} files, commit {{commit}}")
    session.start_fleet(f"for the queues {', '.join(ROLES)}")
    goal = STORY.data["goal"]
    context = session.context(language="python", test_command="pytest")
    session.submit(f"The goal: {goal['goal']}", goal | {"context": context})
    with session.step("The fleet at work") as step:
        view = session.end_of_plan()
        document = view.document
        verdicts = [record["verdict"] for record in document["gate_history"]]
        if not session.agent and (verdicts.count("FAIL") != 1 or not document["plan"]["frozen_at"]):
            raise DemoFailed(
                f"The verdicts of the gates were {', '.join(verdicts)}; one of them should have failed once."
            )
        waves = len(document["plan"]["milestone_dependencies"]["waves"])
        step.result = f"{view.state}: {len(view.steps)} steps, {len(verdicts)} reviews, {waves} waves"
    session.check_branch()
    session.show_page("The gates", "\n".join(_gates(document)))
    session.show_page("plan.md", document["plan_md"])


def _gates(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdicts of each gate, and the findings that blocked it."""
    for record in document["gate_history"]:
        counts = sum(count for row in record["counts"].values() for count in row.values())
        gate = f"{record['phase']}-qr-gate"
        yield f"{gate:<20} iteration {record['iteration']}  {record['verdict']}  {counts} items"
        yield from (f"    {finding}" for finding in record["findings"])


STORY = Story("reviewed_plan", play, answer)
