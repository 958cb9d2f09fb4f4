"""Fixtures of the gateway's tests: a planner on its server, and a real Chromium in which people look and act."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from schemas.api_key import Right
from tests.support.browser import Hand, Tab, chromium, tab
from tests.support.gateway import Gateway
from tests.support.planner import Planner


@pytest.fixture
def planner(gateway: Gateway) -> Planner:
    return Planner(gateway.settings.redis_url)


@pytest.fixture
def controller(gateway: Gateway) -> httpx.Client:
    """A client with a controller's key."""
    return gateway.client(Right.CONTROLLER)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def viewer(browser: Browser, gateway: Gateway) -> Iterator[Tab]:
    """A tab in which nothing is wrong when the test is over."""
    with tab(browser, gateway) as opened:
        yield opened
        assert opened.troubles == []


@pytest.fixture
def operator(viewer: Tab, gateway: Gateway) -> Tab:
    """A tab of somebody who may do everything."""
    viewer.sign_in(gateway.key(Right.ADMIN))
    return viewer


@pytest.fixture(params=["mouse", "keyboard"])
def hand(request: pytest.FixtureRequest, operator: Tab) -> Hand:
    return Hand(operator.page, has_mouse=request.param == "mouse")
