"""Each error code has its cause and its solution on a page that exists, and no other code is there."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from schemas.envelope import Problem
from schemas.error_codes import ERROR_CODES
from tests.support.sources import problems
from tests.tools.reference import DOCS, PAGES
from worker.gateway.app import create_app
from worker.settings.settings import Settings


def test_every_code_that_the_sources_report_has_its_row() -> None:
    assert ERROR_CODES.keys() == problems()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_code_is_what_the_code_makes(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run: python -m tests.tools.reference"


def test_the_type_of_each_problem_is_a_place_on_a_page_that_the_gateway_serves_without_a_key() -> None:
    answer = TestClient(create_app(Settings()), base_url="http://localhost").get("/errors")
    path, _, anchor = Problem.of("no_key", "No key.").type.partition("#")

    assert (answer.status_code, path, anchor) == (200, "/errors", "no_key")
    assert set(re.findall(r'<dt id="(\w+)"', answer.text)) == ERROR_CODES.keys()


def test_the_type_of_each_problem_is_a_heading_of_the_page_in_docs() -> None:
    assert set(re.findall(r"^### `(\w+)`$", (DOCS / "errors.md").read_text(), re.M)) == ERROR_CODES.keys()
