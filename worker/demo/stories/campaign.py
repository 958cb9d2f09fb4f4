"""A `campaign`: an objective that can be read in two ways, a person's answer, and tasks side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from worker.demo.story import ADA, Answer, Commit, DemoFailed, Spec, Story, pyproject

if TYPE_CHECKING:
    from schemas.plan import PlanView, Waiting
    from worker.demo.session import Session

OBJECTIVE = """\
# Shipping
Charge shipping by weight or by distance.

## Cart
A cart knows how much all of its items weigh.

## Rates
A parcel of up to 2 kg costs 490 cents, one of up to 10 kg 990, a heavier one 1990.

## Checkout
The total is what the items cost, and shipping. An empty cart costs nothing.
"""
ANSWER = "A"  # by weight

FILES = {
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "pyproject.toml": pyproject("shop", "0.9.0"),
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/cart.py": '''\
"""What somebody is about to buy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """Something to buy; its price in cents, its weight in grams."""

    name: str
    price: int
    grams: int


@dataclass(frozen=True)
class Cart:
    """Items in the order in which they were taken."""

    items: tuple[Item, ...] = ()

    @property
    def price(self) -> int:
        """What all items cost."""
        return sum(item.price for item in self.items)
''',
    "shop/checkout.py": '''\
"""What is to be paid."""

from shop.cart import Cart


def total(cart: Cart) -> int:
    """Say what is to be paid, in cents."""
    return cart.price
''',
    "tests/test_cart.py": """\
from shop.cart import Cart, Item

TEA = Item("tea", 450, 100)


def test_a_cart_costs_what_its_items_cost():
    assert Cart((TEA, TEA)).price == 900
""",
    "tests/test_checkout.py": """\
from shop.cart import Cart
from shop.checkout import total


def test_an_empty_cart_costs_nothing():
    assert total(Cart()) == 0
""",
}

EXPLORATION: dict[str, Any] = {
    "structure": {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": len(FILES), "language": "python"},
    "pattern": {"status": "ok", "framework": "none", "confidence": 0.9},
    "memory": {"status": "ok", "patterns": [{"name": "table", "insight": "rates are easiest to read as a table"}]},
    "delta": {
        "status": "ok",
        "search_terms": ["price", "total", "grams"],
        "candidates": [
            {"path": "shop/checkout.py", "functions": [{"name": "total", "line": 6}], "relevance": "high"},
            {"path": "shop/cart.py", "functions": [{"name": "price", "line": 22}], "relevance": "medium"},
        ],
    },
}


def _task(seq: str, kind: str, slug: str, delta: list[str], depends: list[str], **more: Any) -> dict[str, Any]:
    verify = f"pytest -q {delta[-1]}" if delta else "pytest -q"
    return {"seq": seq, "slug": slug, "type": kind, "delta": delta, "verify": verify, "depends": depends, **more}


_FORM = "python -m py_compile "
_WEIGHED, _RATES, _CHECKOUT = "tests/test_cart.py", "tests/test_shipping.py", "tests/test_checkout.py"
TASKS = [
    _task("001", "SPEC", "spec-weight", [_WEIGHED], [], verify=_FORM + _WEIGHED),
    _task("002", "BUILD", "build-weight", ["shop/cart.py"], ["001"], verify=f"pytest -q {_WEIGHED}"),
    _task("003", "SPEC", "spec-rates", [_RATES], [], verify=_FORM + _RATES, creates=[_RATES]),
    _task(
        "004", "BUILD", "build-rates", ["shop/shipping.py"], ["003"],
        verify=f"pytest -q {_RATES}", creates=["shop/shipping.py"],
    ),
    _task("005", "BUILD", "build-checkout", ["shop/checkout.py", _CHECKOUT], ["002", "004"]),
    _task("006", "VERIFY", "verify-shipping", [], ["005"]),
]  # fmt: skip
GUESS = {"build-rates": ["shop/settings.py"]}  # a file that a first draft adds, and the goal does not allow

WORK = {  # slug of a task -> its files, each with what is added to it, or what stands for what was there
    "spec-weight": {_WEIGHED: [("", "\n\ndef test_a_cart_weighs_what_its_items_weigh():\n"
                                    "    assert Cart((TEA, TEA)).grams == 200\n")]},
    "build-weight": {"shop/cart.py": [("", '''
    @property
    def grams(self) -> int:
        """What all items weigh."""
        return sum(item.grams for item in self.items)
''')]},
    "spec-rates": {_RATES: [("", """\
import pytest

from shop.shipping import shipping


@pytest.mark.parametrize(
    ("grams", "cents"), [(0, 0), (1, 490), (2000, 490), (2001, 990), (10000, 990), (10001, 1990)]
)
def test_shipping_costs_by_weight(grams, cents):
    assert shipping(grams) == cents
""")]},
    "build-rates": {"shop/shipping.py": [("", '''\
"""What it costs to send a parcel."""

RATES = ((0, 0), (2000, 490), (10000, 990))  # up to so many grams, so many cents
HEAVY = 1990


def shipping(grams: int) -> int:
    """Say what a parcel of this weight costs, in cents."""
    return next((cents for most, cents in RATES if grams <= most), HEAVY)
''')]},
    "build-checkout": {
        "shop/checkout.py": [
            ("from shop.cart import Cart\n", "from shop.cart import Cart\nfrom shop.shipping import shipping\n"),
            ("return cart.price\n", "return cart.price + shipping(cart.grams)\n"),
        ],
        _CHECKOUT: [
            ("from shop.cart import Cart\n", "from shop.cart import Cart, Item\n"),
            ("", "\n\ndef test_the_total_has_shipping_in_it():\n"
                 '    assert total(Cart((Item("tea", 450, 100),))) == 450 + 490\n'),
        ],
    },
}  # fmt: skip
ALLOWED = ["shop/cart.py", "shop/checkout.py", "shop/shipping.py", _WEIGHED, _CHECKOUT, _RATES]


def answer(spec: Spec) -> Answer:
    """Say what there is, draft (at first with a file that nobody may touch), and do the task of a step."""
    edits: Mapping[str, Any] = {}
    match spec["controller_task_spec"]["type"]:
        case "EXPLORE":
            report: dict[str, Any] = {"output": EXPLORATION}
        case "DRAFT" if spec["context"]["previous_failure"]:
            report = {"output": {"tasks": TASKS}}
        case "DRAFT":
            bold = [{**task, "delta": [*task["delta"], *GUESS.get(task["slug"], ())]} for task in TASKS]
            report = {"output": {"tasks": bold}}
        case _:
            slug = spec["input"]["task"]["slug"]
            edits = WORK[slug]
            report = {"patch_cycles": 1, "output": f"{slug}: {', '.join(edits)}"}
    return Answer(edits, report, len(json.dumps(report)))


def play(session: Session) -> None:
    """Play the story."""
    session.make_repository("A git repository of a small shop", f"{len(FILES)} files, commit {{commit}}")
    session.start_fleet("with a scripted agent that explores, drafts and patches")
    session.submit(
        "A campaign: charge shipping by weight or by distance",
        {
            "goal": "Charge shipping",
            "kind": "campaign",
            "campaign": {"objective": OBJECTIVE},
            "allowed_files": ALLOWED,
            "context": session.context(test_command="pytest -q", files=[*FILES]),
        },
    )
    with session.step("What the exploration leaves open") as step:
        session.watch()
        asked = session.wait("the question of the plan", lambda: _question(session.view(session.plan_id)))
        step.result = f"{asked.kind.upper()}: {asked.questions[0]}"
    with session.step("A person answers in the page") as step:
        page = f"{asked.document}\n{ANSWER}\n"
        session.show_page("The question, and its answer", page)
        session.answer(page, "as the team decided")
        step.result = f"{ANSWER}: by weight"
    document = session.follow().document
    session.show_page("The task graph", document["graph"])
    session.show_page("The plan", _plan_json(document))
    session.check_branch()


def _question(view: PlanView | None) -> Waiting | None:
    if view is not None and view.halt:
        raise DemoFailed(f"The plan ended as {view.state}: {view.halt.reason}")
    return view.waiting if view is not None else None


def _plan_json(document: Mapping[str, Any]) -> str:
    """Write the campaign's plan.json, a task a line."""
    from schemas.kinds.campaign import CampaignPlan  # here, so that the agent starts without it

    plan = {name: document[name] for name in CampaignPlan.model_fields}
    tasks = ",\n    ".join(map(json.dumps, plan.pop("tasks")))
    others = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in plan.items())
    return f'{{\n{others}  "tasks": [\n    {tasks}\n  ]\n}}\n'


STORY = Story(
    summary="a person said what was meant, then two branches went on side by side.",
    repository="shop",
    commits=[Commit("main", ADA, "2026-03-02", "Sell things", FILES)],
    play=play,
    answer=answer,
)
