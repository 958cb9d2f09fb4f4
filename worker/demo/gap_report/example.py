"""The repository of the demo, with what ruff and pytest find in it, a wish, and what its agent knows."""

from __future__ import annotations

PRICES, STOCK, RECEIPT = "till/prices.py", "till/stock.py", "till/receipt.py"
ALLOWED = ("till/*.py", RECEIPT)  # no tests: nobody may make them pass by changing them

BUG = "    return price + price * percent // 100\n"
FIX = "    return price + (price * percent + 50) // 100\n"

WISH = """\
---
title: Print a receipt
priority: medium
constraints:
  - Do not touch till/stock.py
---
Write till/receipt.py: a line for each price, and the total with tax.
"""
RECEIPT_TEXT = '''\
"""What the customer takes home."""

from collections.abc import Iterable

from till.prices import with_tax


def receipt(prices: Iterable[int], percent: int) -> str:
    """List `prices` in cents with their tax, and their total."""
    taxed = [with_tax(price, percent) for price in prices]
    return "\\n".join([*map(_euros, taxed), f"total {_euros(sum(taxed))}"])


def _euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"
'''

FILES = {
    "pyproject.toml": """\
[project]
name = "till"
version = "0.2.0"

[tool.ruff.lint]
select = ["E", "F"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""",
    "till/__init__.py": '"""What a shop sells."""\n',
    PRICES: f'''\
"""Prices in cents."""

import math


def with_tax(price: int, percent: int) -> int:
    """Add `percent` to `price`, rounded half up to a cent."""
{BUG}''',
    STOCK: '''\
"""What is left on the shelves."""

import json
import os
from collections import Counter
from collections.abc import Iterable


def left(delivered: Iterable[str], sold: Iterable[str]) -> dict[str, int]:
    """Count what was delivered and is not sold."""
    return dict(Counter(delivered) - Counter(sold))
''',
    "tests/test_prices.py": """\
from till.prices import with_tax


def test_tax_is_added():
    assert with_tax(1000, 19) == 1190


def test_a_part_of_a_cent_is_rounded():
    assert with_tax(1999, 19) == 2379


def test_half_a_cent_is_rounded_up():
    assert with_tax(50, 5) == 53
""",
    "tests/test_stock.py": """\
from till.stock import left


def test_what_is_sold_is_gone():
    assert left(["tea", "tea", "milk"], ["tea", "milk"]) == {"tea": 1}
""",
}
