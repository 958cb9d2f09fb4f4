"""A real headless Chromium, driven by Playwright: shows what people see, and catches what a page must never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect, sync_playwright

from tests.support.gateway import Gateway
from tests.support.programs import NODE_MODULES

AXE = NODE_MODULES / "axe-core" / "axe.min.js"
PATIENCE_MS = 30_000  # on a machine that runs many tests at once
MOST_TABS = 150  # to reach anything on a page by the Tab key
FITS = """document.documentElement.scrollWidth <= innerWidth
  && [...document.querySelectorAll(".reading td")].every(each => each.scrollWidth <= each.clientWidth + 1)"""
WIDE: ViewportSize = {"width": 1440, "height": 900}
LAPTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
NARROW: ViewportSize = {"width": 360, "height": 740}
HOSTILE = (  # in every field that comes from outside; whatever runs or is markup shows
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    "\x1b[31m\u202e'\"--></textarea></title><svg onload=alert(1)>{{ 7*7 }}{% raw %} javascript:alert(1)"
)


class Tab:
    """A tab of a browser, with its troubles: script errors, violations of the policy, and requests to other hosts."""

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

    def open_whole(self, path: str) -> Page:
        """Go to a path of the gateway, and open all that is folded there."""
        self.open(path).locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
        return self.page

    def sign_in(self, token: str, path: str = "/") -> Page:
        """Go to a path, and show a key where that is asked for, by keyboard alone."""
        self.open(path)
        self.page.locator("input[name=key]:focus").wait_for()  # a busy browser puts the caret there late
        self.page.keyboard.type(token)
        self.page.keyboard.press("Enter")
        self.page.locator(".who").wait_for()
        return self.page

    def fits(self) -> bool:
        """Return whether the page is as wide as its window, and no figure overlaps another."""
        return bool(self.page.evaluate(FITS))

    def violations(self) -> list[str]:
        """Return the accessibility violations that axe finds in the page."""
        self.page.evaluate(AXE.read_text())
        found: Any = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


class Hand:
    """A person who uses a page: by the mouse, or by the keyboard alone."""

    def __init__(self, page: Page, *, has_mouse: bool) -> None:
        self.page = page
        self._has_mouse = has_mouse

    def press(self, wanted: Locator) -> None:
        """Follow a link, press a button, or check a box."""
        if self._has_mouse:
            wanted.click()
        else:
            self._reach(wanted)
            self.page.keyboard.press("Space" if wanted.get_attribute("type") in ("checkbox", "radio") else "Enter")

    def write(self, wanted: Locator, text: str) -> None:
        """Write into a field."""
        if self._has_mouse:
            wanted.click()
        else:
            self._reach(wanted)
        self.page.keyboard.type(text)

    def select(self, wanted: Locator, text: str) -> None:
        """Select one of a list."""
        if self._has_mouse:
            wanted.select_option(text)
        else:
            self._reach(wanted)
            self.page.keyboard.type(text)

    def choose(self, wanted: Locator) -> None:
        """Choose among answers: the group is reached at the one that is chosen, and left by arrows."""
        if self._has_mouse:
            return wanted.click()
        self._reach(wanted.page.locator("[name=choice]:checked"))
        for _ in range(MOST_TABS):
            if wanted.is_checked():
                return None
            self.page.keyboard.press("ArrowDown")
        raise AssertionError("no arrow leads there")

    def _reach(self, wanted: Locator) -> None:
        wanted.wait_for()
        for _ in range(MOST_TABS):
            if wanted.evaluate("each => each === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the Tab key does not lead to {wanted}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start this machine's Chromium."""
    with sync_playwright() as driver:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        expect.set_options(timeout=PATIENCE_MS)
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
