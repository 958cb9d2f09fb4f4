"""A real Chromium without a window, driven by Playwright: what a person sees, and what the page should never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.gateway import Gateway

AXE = Path(os.environ.get("PLANNER_TEST_NODE_MODULES", "")) / "axe-core" / "axe.min.js"
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
HOSTILE = (  # in every field that comes from outside; whatever runs or is markup shows
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    "\x1b[31m\u202e'\"--></textarea></title><svg onload=alert(1)>{{ 7*7 }}{% raw %} javascript:alert(1)"
)


class Tab:
    """A tab of a browser, and what went wrong in it: errors of scripts, violations of the policy, foreign requests."""

    def __init__(self, page: Page, gateway: Gateway) -> None:
        self.page = page
        self.url = gateway.url
        self.troubles: list[str] = []
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", self._hear)
        page.on("request", self._look)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.troubles.append(f"{message.type}: {message.text}")

    def _look(self, request: Any) -> None:
        if not request.url.startswith(self.url):
            self.troubles.append(f"asks {request.url}")

    def open(self, path: str = "/") -> Page:
        """Go to a path of the gateway."""
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, token: str, path: str = "/") -> Page:
        """Go to a path, and show a key where that is asked for, by keyboard alone."""
        self.open(path)
        self.page.keyboard.type(token)
        self.page.keyboard.press("Enter")
        self.page.locator(".who").wait_for()
        return self.page

    def violations(self) -> list[str]:
        """List what axe finds wrong with the page for those who do not see or point."""
        self.page.evaluate(AXE.read_text())
        found: Any = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start this machine's Chromium; skips where there is none."""
    binary = shutil.which("chromium")
    if binary is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"] if os.getuid() == 0 else [])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, gateway: Gateway, **options: Any) -> Iterator[Tab]:
    """Open a tab that knows nothing yet."""
    context: BrowserContext = browser.new_context(**{"viewport": WIDE, "timezone_id": "Europe/Berlin", **options})
    try:
        yield Tab(context.new_page(), gateway)
    finally:
        context.close()
