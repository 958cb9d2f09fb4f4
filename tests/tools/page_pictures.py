"""Takes the pictures of the page that the README shows: `uv run python -m tests.tools.page_pictures`.

A real planner plays the demos of several kinds beside its page, which a real Chromium looks at, in both themes. One
more goal waits for a person.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, ViewportSize

from tests.support.browser import chromium
from worker.demo.fleet import PLANNER
from worker.host import embedded_server

DOCS = Path(__file__).parents[2] / "docs"
SIZE: ViewportSize = {"width": 1280, "height": 800}
MOST_BYTES = 150_000
KINDS = ("gap_report", "campaign")
PATIENCE_S = 240.0
RISKY = {
    "goal": "Move the table of invoices to the new schema",
    "goal_id": "pictures-risky",
    "allowed_files": ["db/schema.sql"],
    "context": {"repo": "acme/billing"},
    "queue": "default",
    "approvals": ["HIGH"],
    "steps": [
        {
            "step_id": "migrate-schema", "title": "Migrate the schema", "intent": "Migrate the table of invoices",
            "allowed_files": ["db/schema.sql"], "verify": "pytest tests/test_schema.py", "risk_level": "HIGH",
            "rollback_hint": "Restore the dump of the night.",
        }
    ],
}  # fmt: skip


@contextmanager
def demo(home: Path, url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Play a demo on a server; it ends with the block."""
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PLANNER_REDIS_URL": url, "COLUMNS": "200"}
    command = [sys.executable, *PLANNER, "demo", *options]
    process = subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def read_until(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Read what a demo says until a line has this."""
    assert process.stdout
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found
    raise SystemExit(f"The demo ended before it said {pattern!r}.")


def take(page: Page, name: str) -> None:
    """Write a picture; raises SystemExit where it is too large for a README."""
    page.evaluate("document.fonts.ready")
    path = DOCS / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(DOCS.parent)}: {size:,} bytes")  # noqa: T201
    if size > MOST_BYTES:
        raise SystemExit(f"{name} is larger than {MOST_BYTES:,} bytes.")


def look(browser: Browser, address: str, token: str, completed: str) -> None:
    """Take each picture in both themes."""
    for theme in ("light", "dark"):
        context = browser.new_context(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
        page = context.new_page()
        page.goto(address)
        page.get_by_label("API key").fill(token)
        page.keyboard.press("Enter")
        page.locator("#list tbody tr").first.wait_for()
        take(page, f"page-plans-{theme}")
        page.goto(f"{address}plans/{completed}")
        page.locator(".graph").first.wait_for()
        take(page, f"page-plan-{theme}")
        context.close()


def main() -> None:
    """Play, look, and write the pictures."""
    with tempfile.TemporaryDirectory() as name, embedded_server.valkey(Path(name) / "valkey") as url:
        home = Path(name)
        for kind in KINDS:
            with demo(home, url, "--json", "--kind", kind) as playing:
                out, _ = playing.communicate(timeout=PATIENCE_S)
                told = json.loads(out)
                if "problem" in told:
                    raise SystemExit(f"The demo of {kind} failed: {told['problem']['detail']}")
        with demo(home, url, "--page") as playing:
            address = read_until(playing, r"In a browser: (\S+)")[1]
            token = read_until(playing, r"This key signs in: (\S+)")[1]
            read_until(playing, "The page stays")
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}) as client:
                client.post("/v1/goals?wait=20", json=RISKY).raise_for_status()
                found = client.get("/v1/plans", params={"kind": "task", "state": "COMPLETED"}).json()["items"]
            with chromium() as browser:
                look(browser, address, token, found[0]["plan_id"])


if __name__ == "__main__":
    main()
