"""The repository of the demo: a small package with a genuine bug, and the two patches that its agent will try."""

from __future__ import annotations

SOURCE = "billing/renewals.py"
OUTSIDE = "../deploy/.env"  # what no goal may ask for

BUG = "    return start.replace(year=year, month=month + 1)\n"
GUESS = "    return start.replace(year=year, month=month + 1, day=min(start.day, 28))\n"
FIX = """\
    day = min(start.day, monthrange(year, month + 1)[1])
    return start.replace(year=year, month=month + 1, day=day)
"""
IMPORT = "from datetime import date\n"

FILES = {
    "pyproject.toml": """\
[project]
name = "billing"
version = "1.4.0"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""",
    "billing/__init__.py": '"""What subscribers pay, and when."""\n',
    "billing/prices.py": '''\
"""Prices in cents."""


def with_discount(price: int, percent: int) -> int:
    """Take `percent` off `price`, rounded half up to a cent."""
    return price - (price * percent + 50) // 100
''',
    SOURCE: f'''\
"""When a subscription renews."""

{IMPORT}

def renewal(start: date, months: int = 1) -> date:
    """Return the day on which a subscription that began on `start` renews after `months` months.

    Where that month is too short, it renews on the last day of the month.
    """
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
{BUG}''',
    "tests/test_prices.py": """\
from billing.prices import with_discount


def test_a_discount_is_taken_off():
    assert with_discount(2000, 25) == 1500


def test_half_a_cent_is_rounded_for_the_customer():
    assert with_discount(1990, 5) == 1890
""",
    "tests/test_renewals.py": """\
from datetime import date

from billing.renewals import renewal


def test_renews_on_the_same_day_of_the_next_month():
    assert renewal(date(2026, 3, 15)) == date(2026, 4, 15)


def test_renews_across_the_end_of_the_year():
    assert renewal(date(2026, 11, 30), months=2) == date(2027, 1, 30)


def test_renews_on_the_last_day_of_february():
    assert renewal(date(2026, 1, 31)) == date(2026, 2, 28)


def test_renews_on_the_29th_in_a_leap_year():
    assert renewal(date(2028, 1, 31)) == date(2028, 2, 29)


def test_keeps_the_31st_where_the_month_has_one():
    assert renewal(date(2026, 1, 31), months=2) == date(2026, 3, 31)
""",
}
