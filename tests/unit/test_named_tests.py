"""Names of failing tests are found among the files of a checkout, or are known to be none of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.toolchain.named_tests import resolve_tests

FILES = (
    "backend/tests/test_cart.py",
    "tests/test_basket.py",
    "tests/unit/test_same.py",
    "tests/integration/test_same.py",
    "test/basket.js",
    "app/[id]/page.test.tsx",
    "src/shop/cart.py",
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tests/test_basket.py::test_sum", "tests/test_basket.py::test_sum"),
        ("./tests/test_basket.py::test_sum", "tests/test_basket.py::test_sum"),
        ("tests/test_cart.py::TestCart::test_sum[a b]", "backend/tests/test_cart.py::TestCart::test_sum[a b]"),
        ("/builds/acme/shop/tests/test_basket.py::test_sum", "tests/test_basket.py::test_sum"),
        ("/builds/acme/shop/test/basket.js", "test/basket.js"),
        ("tests/test_basket/describe_sum.py::it_adds", "tests/test_basket.py::describe_sum::it_adds"),
        ("tests.test_basket.TestBasket.test_sum", "tests/test_basket.py::TestBasket::test_sum"),
        ("app/[id]/page.test.tsx", "app/[id]/page.test.tsx"),
        ("unit/test_same.py", "tests/unit/test_same.py"),
        ("TestSum", "TestSum"),
        ("shop-core tests::adds", "shop-core tests::adds"),
        ("basket sums up", "basket sums up"),
        ("com.acme.AuthTest.logsIn", "com.acme.AuthTest.logsIn"),
    ],
)
def test_a_name_is_that_of_the_file_that_it_means(name: str, meant: str) -> None:
    assert resolve_tests([name], FILES) == ((meant,), ())


@pytest.mark.parametrize(
    "name", ["Node.js", "tests/test_gone.py::test_sum", "test_same.py::test_a", "Tests.py::Tests::a"]
)
def test_a_name_whose_file_is_not_there_or_not_the_only_one_is_unknown(name: str) -> None:
    assert resolve_tests([name], FILES) == ((), (name,))


@given(st.lists(st.sampled_from(FILES), unique=True), st.sampled_from(["", "/builds/shop/", "./"]))
def test_every_file_is_known_by_its_own_name_and_below_any_folder(files: list[str], before: str) -> None:
    assert resolve_tests([before + path for path in files], files) == (tuple(files), ())
