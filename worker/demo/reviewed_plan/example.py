"""The repository of this demo, and what its architect, its developer and its writer have in mind."""

from __future__ import annotations

GOAL = "Show the VAT on every invoice"
VAT, MONEY, INVOICE, README = "shop/vat.py", "shop/money.py", "shop/invoice.py", "README.md"
TEST_VAT, TEST_MONEY, TEST_INVOICE = "tests/test_vat.py", "tests/test_money.py", "tests/test_invoice.py"
ALLOWED = (VAT, MONEY, INVOICE, TEST_VAT, TEST_MONEY, TEST_INVOICE, README)

FILES = {
    "pyproject.toml": """\
[project]
name = "shop"
version = "2.1.0"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""",
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
    VAT: FILES[VAT]
    + """

def vat(net: int, country: str) -> int:
    return (net * RATES[country] + 50) // 100
""",
    MONEY: FILES[MONEY]
    + """

def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"
""",
    INVOICE: '''\
"""Invoices as plain text."""

from shop.money import euros, total
from shop.vat import vat


def invoice(prices: list[int], country: str) -> str:
    """Write the invoice of an order."""
    net = total(prices)
    tax = vat(net, country)
    return f"Net {euros(net)}, VAT {euros(tax)}, total {euros(net + tax)}"
''',
    TEST_VAT: """\
from shop.vat import vat


def test_half_a_cent_is_rounded_up():
    assert vat(250, "DE") == 48


def test_each_country_has_its_rate():
    assert vat(1000, "LU") == 170
""",
    TEST_MONEY: """\
from shop.money import euros, total


def test_amounts_are_added_up():
    assert total([199, 301]) == 500


def test_cents_always_have_two_digits():
    assert euros(1005) == "10.05 EUR"
""",
    TEST_INVOICE: """\
from shop.invoice import invoice


def test_an_invoice_shows_net_vat_and_total():
    assert invoice([199, 301], "DE") == "Net 5.00 EUR, VAT 0.95 EUR, total 5.95 EUR"
""",
}

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
