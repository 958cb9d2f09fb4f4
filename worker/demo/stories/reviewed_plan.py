"""A `reviewed_plan`: designed, reviewed, mended, frozen, and carried out in waves on a real repository."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.demo.story import ADA, Answer, Commit, DemoFailed, Spec, Story, edited, pyproject

if TYPE_CHECKING:
    from worker.demo.session import Session

Part = dict[str, Any]  # of what a step gives
Finding = tuple[str, str, str | None]  # scope, what is checked, what is wrong with it

GOAL = "Show the VAT on every invoice"
VAT, MONEY, INVOICE, README = "shop/vat.py", "shop/money.py", "shop/invoice.py", "README.md"
TEST_VAT, TEST_MONEY, TEST_INVOICE = "tests/test_vat.py", "tests/test_money.py", "tests/test_invoice.py"
ALLOWED = (VAT, MONEY, INVOICE, TEST_VAT, TEST_MONEY, TEST_INVOICE, README)

FILES = {
    "pyproject.toml": pyproject("shop", "2.1.0"),
    "shop/__init__.py": '"""A shop."""\n',
    VAT: '''\
"""Value-added tax."""

RATES = {"AT": 20, "DE": 19, "LU": 17}  # percent
''',
    MONEY: '''\
"""Amounts of money, in cents."""


def total(amounts: list[int]) -> int:
    """Add amounts up."""
    return sum(amounts)
''',
    INVOICE: '''\
"""Invoices as plain text."""

from shop.money import total


def invoice(prices: list[int], country: str) -> str:
    """Write the invoice of an order."""
    return f"Total {total(prices) / 100}"
''',
    TEST_MONEY: """\
from shop.money import total


def test_amounts_are_added_up():
    assert total([199, 301]) == 500
""",
    TEST_INVOICE: """\
from shop.invoice import invoice


def test_an_invoice_has_a_total():
    assert invoice([199, 301], "DE") == "Total 5.0"
""",
    README: "# shop\n\nWrites invoices.\n",
}

# What each file comes to. Docstrings of new functions are the technical writer's: they stand in the plan.
TARGET = {
    VAT: edited(FILES[VAT], [("", """

def vat(net: int, country: str) -> int:
    return (net * RATES[country] + 50) // 100
""")]),
    MONEY: edited(FILES[MONEY], [("", """

def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"
""")]),
    INVOICE: edited(FILES[INVOICE], [
        ("import total\n", "import euros, total\nfrom shop.vat import vat\n"),
        ('    return f"Total {total(prices) / 100}"\n', """\
    net = total(prices)
    tax = vat(net, country)
    return f"Net {euros(net)}, VAT {euros(tax)}, total {euros(net + tax)}"
"""),
    ]),
    TEST_VAT: """\
from shop.vat import vat


def test_half_a_cent_is_rounded_up():
    assert vat(250, "DE") == 48


def test_each_country_has_its_rate():
    assert vat(1000, "LU") == 170
""",
    TEST_MONEY: edited(FILES[TEST_MONEY], [("import total", "import euros, total"), ("", """

def test_cents_always_have_two_digits():
    assert euros(1005) == "10.05 EUR"
""")]),
    TEST_INVOICE: """\
from shop.invoice import invoice


def test_an_invoice_shows_net_vat_and_total():
    assert invoice([199, 301], "DE") == "Net 5.00 EUR, VAT 0.95 EUR, total 5.95 EUR"
""",
}  # fmt: skip

DECISIONS = {
    "DL-001": ("VAT is rounded half up, on the sum", "The law asks for cents -> a rounded sum is off by one at most"),
    "DL-002": ("Amounts stay integers until they are shown", "Floats lose cents -> only text is made of them"),
}
# file, its test, the function, what it shall do, the decision behind it; in this order they are milestones 1 to 3
PARTS = (
    (VAT, TEST_VAT, "vat", "Work out the VAT of a net amount, rounded half up", "DL-001"),
    (MONEY, TEST_MONEY, "euros", "Write cents as euros, with two digits", "DL-002"),
    (INVOICE, TEST_INVOICE, "invoice", "Show net, vat() of it and the total, each through euros()", "DL-002"),
)
DOCSTRINGS = {
    "vat": "Return the VAT on `net` cents, rounded half up.",
    "euros": "Write cents as euros, such as 10.05 EUR.",
}
NOTE = """
## VAT

An invoice shows net, VAT and total. {reasons}
"""
CALL = re.compile(r"\b(\w+)\(\)")


# The four roles of the agent: each knows its craft, and of the plan only what its step gives it


def architect(spec: Spec) -> Any:
    """Design the plan, at first without saying which milestone needs which; later add what the review found missing."""
    plan = spec["input"]["plan"]
    return {"operations": list(_order(plan) if plan["milestones"] else _design())}


def _design() -> Iterator[Part]:
    facts = {"title": GOAL, "problem": "Invoices show a total and no VAT", "approach": "Bottom up, with tests"}
    yield {"op": "set", "entity": "overview", "version": 1, "value": facts}
    for name, (decision, chain) in DECISIONS.items():
        yield _add("decision", name, decision=decision, reasoning_chain=chain)
    for number, (source, test, function, behavior, decision) in enumerate(PARTS, 1):
        owner, tests = f"M-{number:03d}", {"files": [test], "type": "unit"}
        criteria = [f"{test} passes"]
        yield _add("milestone", owner, number=number, name=behavior, files=[source], tests=tests,
                   acceptance_criteria=criteria)  # fmt: skip
        refs = {"milestone": owner, "decision_refs": [decision]}
        yield _add("code_intent", f"CI-{number}1", file=source, function=function, behavior=behavior, **refs)
        yield _add("code_intent", f"CI-{number}2", file=test, behavior=f"Test {function}", **refs)


def _order(plan: Part) -> Iterator[Part]:
    for milestone in plan["milestones"]:
        if needed := sorted(_needs(plan, milestone)):
            yield _set("milestone", milestone["id"], milestone["version"], depends_on=needed)


def _needs(plan: Part, milestone: Part) -> set[str]:
    """List the milestones whose functions this one's intents call."""
    makers = {intent["function"]: each["id"] for each in plan["milestones"] for intent in each["code_intents"]}
    called = {name for intent in milestone["code_intents"] for name in CALL.findall(intent["behavior"])}
    return {makers[name] for name in called if name in makers} - {milestone["id"]}


def developer(spec: Spec) -> Any:
    """Write a diff for every intent; later apply those of a milestone, with the writer's docstrings."""
    if spec["mode"] == "read_only":
        milestones = spec["input"]["plan"]["milestones"]
        return {"operations": [_change(each["id"], intent) for each in milestones for intent in each["code_intents"]]}
    milestone = spec["input"]["milestone"]["milestone"]
    for change in milestone["code_changes"]:
        _git_apply(change["diff"]).check_returncode()
    source = Path(milestone["files"][0])
    for written in milestone["documentation"]["docstrings"]:
        head = re.compile(rf"^def {written['function']}\(.*:\n", re.M)
        docstring = f'    """{written["docstring"]}"""\n'
        source.write_text(head.sub(rf"\g<0>{docstring}", source.read_text()))
    return None


def _git_apply(diff: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Apply a diff to the files here, or see with `--check` whether it would."""
    argv = ["git", "apply", *options]
    return subprocess.run(argv, input=diff.encode(), capture_output=True, check=False)  # noqa: S603 - our own words


def _change(owner: str, intent: Part) -> Part:
    path = intent["file"]
    before = Path(path).read_text() if Path(path).exists() else ""
    old = f"a/{path}" if before else "/dev/null"
    lines = difflib.unified_diff(before.splitlines(True), TARGET[path].splitlines(True), old, f"b/{path}")
    return _add(
        "code_change", intent["id"].replace("CI", "CC"), milestone=owner, intent_ref=intent["id"], file=path,
        diff="".join(lines), why_comments=[f"As {' and '.join(intent['decision_refs'])} says"],
    )  # fmt: skip


def writer(spec: Spec) -> Any:
    """Write the docstrings into the plan; later the README, with the reasons of the plan."""
    plan = spec["input"]["plan"]
    if spec["mode"] == "read_only":
        return {"operations": [_documentation(each) for each in plan["milestones"]]}
    reasons = " ".join(f"{each['decision']}." for each in plan["planning_context"]["decision_log"])
    Path(README).write_text(Path(README).read_text() + NOTE.format(reasons=reasons))
    return None


def _documentation(milestone: Part) -> Part:
    functions = [intent["function"] for intent in milestone["code_intents"] if intent["function"] in DOCSTRINGS]
    docstrings = [{"function": name, "docstring": DOCSTRINGS[name]} for name in functions]
    facts = {"module_comment": milestone["name"], "docstrings": docstrings}
    return _set("documentation", milestone["id"], milestone["documentation"]["version"], **facts)


def _add(entity: str, entity_id: str, **value: Any) -> Part:
    return {"op": "add", "entity": entity, "id": entity_id, "value": value}


def _set(entity: str, entity_id: str, version: int, **value: Any) -> Part:
    return {"op": "set", "entity": entity, "value": value, "id": entity_id, "version": version}


def reviewer(spec: Spec) -> Any:
    """Check something real for each phase, in plan or files; at the end lay plan and outcome side by side."""
    given = spec["input"]
    if spec["step_id"] == "reconcile":
        return {"milestones": [_judge(given, each) for each in given["plan"]["milestones"]], "summary": "As planned."}
    found = list(CHECKS[spec["phase"]](given["plan"]))
    items = []
    for number, (scope, check, wrong) in enumerate(found, 1):
        status = {"status": "FAIL", "finding": wrong} if wrong else {"status": "PASS"}
        items.append({"id": f"qa-{number:03d}", "scope": scope, "check": check, "severity": "MUST", **status})
    return {"items": items, "verdict": "FAIL" if any(wrong for *_, wrong in found) else "PASS"}


def _check_design(plan: Part) -> Iterator[Finding]:
    for each in plan["milestones"]:
        missing = sorted(_needs(plan, each) - set(each["depends_on"]))
        wrong = f"It calls what {' and '.join(missing)} make and does not depend on them" if missing else None
        yield "*", f"{each['id']} comes after what it calls", wrong


def _check_code(plan: Part) -> Iterator[Finding]:
    for change in (change for milestone in plan["milestones"] for change in milestone["code_changes"]):
        wrong = _git_apply(change["diff"], "--check").stderr.decode()[:500] or None
        yield f"file:{change['file']}", f"{change['id']} applies to the code", wrong


def _check_docs(plan: Part) -> Iterator[Finding]:
    for each in plan["milestones"]:
        wrong = None if each["documentation"]["module_comment"] else "Nothing is written"
        yield "*", f"{each['id']} is documented", wrong


def _check_implementation(plan: Part) -> Iterator[Finding]:
    for intent in (intent for milestone in plan["milestones"] for intent in milestone["code_intents"]):
        wrong = None if _is_there(intent) else "It is not there"
        yield f"file:{intent['file']}", f"{intent['id']} is carried out", wrong


def _is_there(intent: Part) -> bool:
    path = Path(intent["file"])
    return path.exists() and f"def {intent['function'] or 'test_'}" in path.read_text()


def _check_readme(plan: Part) -> Iterator[Finding]:
    text = Path(README).read_text()
    for each in plan["planning_context"]["decision_log"]:
        wrong = None if each["decision"] in text else "It says nothing of it"
        yield f"file:{README}", f"The README tells {each['id']}", wrong


def _judge(given: Part, milestone: Part) -> Part:
    done = given["outcomes"][milestone["id"]]["outcome"] == "DONE" and all(map(_is_there, milestone["code_intents"]))
    return {"id": milestone["id"], "outcome": "SATISFIED" if done else "NOT_SATISFIED"}


CHECKS: Mapping[str, Callable[[Part], Iterator[Finding]]] = {
    "plan-design-qr": _check_design,
    "plan-code-qr": _check_code,
    "plan-docs-qr": _check_docs,
    "impl-code-qr": _check_implementation,
    "impl-docs-qr": _check_readme,
}
ROLES: Mapping[str, Callable[[Spec], Any]] = {
    "architect": architect,
    "developer": developer,
    "technical-writer": writer,
    "quality-reviewer": reviewer,
}


def answer(spec: Spec) -> Answer:
    """Take the role to which the queue of the step belongs; what it changes it has changed then."""
    output = ROLES[spec["queue"]](spec)
    return Answer(report={"output": output}, characters=len(json.dumps(output)))


def play(session: Session) -> None:
    """Play the story."""
    session.make_repository("A git repository", f"{len(FILES)} files, commit {{commit}}")
    session.start_fleet(f"for the queues {', '.join(ROLES)}")
    context = session.context(language="python", test_command="pytest")
    body = {"goal": GOAL, "kind": "reviewed_plan", "allowed_files": ALLOWED, "context": context}
    session.submit(f"The goal: {GOAL}", body)
    with session.step("The fleet at work") as step:
        view = session.end_of_plan()
        document = view.document
        verdicts = [record["verdict"] for record in document["gate_history"]]
        if verdicts.count("FAIL") != 1 or not document["plan"]["frozen_at"]:
            raise DemoFailed(f"The gates said {', '.join(verdicts)}; one of them should have failed once.")
        waves = len(document["plan"]["milestone_dependencies"]["waves"])
        step.result = f"{view.state}: {len(view.steps)} steps, {len(verdicts)} reviews, {waves} waves"
    session.check_branch()
    session.show_page("The gates", "\n".join(_gates(document)))
    session.show_page("plan.md", document["plan_md"])


def _gates(document: Mapping[str, Any]) -> Iterator[str]:
    """Tell what each gate said each time, and what kept it shut."""
    for record in document["gate_history"]:
        counts = sum(count for row in record["counts"].values() for count in row.values())
        gate = f"{record['phase']}-qr-gate"
        yield f"{gate:<20} iteration {record['iteration']}  {record['verdict']}  {counts} items"
        yield from (f"    {finding}" for finding in record["findings"])


STORY = Story(
    summary="a review found what the design forgot, and no line was written before the plan was frozen.",
    repository="shop",
    commits=[Commit("main", ADA, "2026-03-02", "Sell things", FILES)],
    play=play,
    answer=answer,
    queues=tuple(ROLES),
)
