"""Measures the page: `uv run python -m tests.tools.page_figures` prints what it costs, as tables of Markdown.

Views are asked for over HTTP, and opened in a Chromium that knows nothing yet. Then so many people look at the list
while a fleet works as fast as the planner lets it, and follow it as the page's script does. They are a process of their
own (`python -m tests.tools.page_figures PORT TOKEN VIEWERS`), which prints how many lists came, and how long after the
first change that they show, once its input ends.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, ViewportSize
from redis import Redis

from schemas import codec
from tests.bench import cpu, fleet
from tests.bench.gateway import RunningGateway, gateway
from tests.bench.outcomes import throughput
from tests.bench.servers import EMBEDDED, running
from tests.bench.site import Site, Sizes
from tests.support.browser import chromium
from worker.store import clients, functions, queries
from worker.store.keys import GOALS

STEPS = (10, 1000, 10_000)
LISTED = 10_000  # plans in the list
CHAINS = 16
ASKED = 12  # times that each view is asked for
OPENED = 5  # times that Chromium opens it
VIEWERS = 200
SCREEN: ViewportSize = {"width": 1440, "height": 900}
SIZES = Sizes(plans=3000, steps=10)
MOST_BYTES = 1024 * 1024  # of a list
SCROLLED_PX = 2000  # a frame, which is faster than anybody reads
SCROLL = """async ([rows, px]) => {
  const frames = [], began = performance.now();
  let last = began, grown = began, count = 0;
  while (count < rows && last - grown < 10000) {
    window.scrollBy(0, px);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
    const found = document.querySelectorAll(".plans tbody tr").length;
    if (found > count) [count, grown] = [found, now];
  }
  return {count, seconds: (last - began) / 1000, frames};
}"""
INTERACTIVE = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


def say(text: str) -> None:
    """Tell a person what is done."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def plan_of(client: Redis, steps: int) -> str:
    """Have a plan made, and some of its steps done; returns its id."""
    body = fleet.goal(1_000_000 + steps, steps, CHAINS if steps > CHAINS else 2)
    client.xadd(GOALS, {"data": body})
    goal_id = codec.loads(body)["goal_id"]
    fleet.wait_for(lambda: (found := queries.goal(client, goal_id)) and found.verdict == "PLANNED")
    found = queries.goal(client, goal_id)
    assert found
    with fleet.Fleet(client) as controllers:
        controllers.work(steps // 2)
        controllers.read(100, 100)  # what starts next is claimed by nobody
    return found.plan_id


def ask(client: Redis, at: RunningGateway, path: str) -> dict[str, Any]:
    """Ask for a view again and again: ms until it is there, the CPU of the gateway and of the server, its bytes."""
    headers = {"Authorization": f"Bearer {at.token}", "Accept": "text/html"}
    with httpx.Client(base_url=f"http://127.0.0.1:{at.port}", headers=headers, timeout=60) as http:
        first = http.get(path).raise_for_status()
        took = []
        before = cpu.usage(client, at.pid)
        for _ in range(ASKED):
            began = time.perf_counter()
            http.get(path).raise_for_status()
            took.append(1000 * (time.perf_counter() - began))
        spent = cpu.usage(client, at.pid).us_each(before, ASKED)
    both = {"cpu_ms": spent["worker_cpu_us"] / 1000, "server_ms": spent["server_cpu_us"] / 1000}
    return {"ms": median(took), **both, "bytes": len(first.content)}


def signed_in(browser: Browser, at: RunningGateway) -> Page:
    """Sign in; returns a page in a context of its own, which knows nothing but the session."""
    context = browser.new_context(viewport=SCREEN)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{at.port}/")
    page.get_by_label("API key").fill(at.token)
    page.keyboard.press("Enter")
    page.locator(".who").wait_for()
    session = context.storage_state()
    context.close()
    return browser.new_context(viewport=SCREEN, storage_state=session).new_page()


def open_in(browser: Browser, at: RunningGateway, path: str) -> float:
    """Open a view in a browser that has nothing of it yet; returns ms until it can be read and used."""
    took = []
    for _ in range(OPENED):
        page = signed_in(browser, at)
        page.goto(f"http://127.0.0.1:{at.port}{path}")
        took.append(float(page.evaluate(INTERACTIVE)))
        page.context.close()
    return median(took)


def scroll_in(browser: Browser, at: RunningGateway, rows: int) -> tuple[str, ...]:
    """Scroll through the list down to its last plan; returns ms between two frames."""
    page = signed_in(browser, at)
    page.goto(f"http://127.0.0.1:{at.port}/?limit=500")
    found: Any = page.evaluate(SCROLL, [rows, SCROLLED_PX])
    page.context.close()
    if found["count"] < rows:
        raise SystemExit(f"Only {found['count']} of {rows} plans came.")
    cuts = quantiles(found["frames"], n=100)
    return f"{found['count']:,}", *(f"{ms:.0f}" for ms in (cuts[49], cuts[98], max(found["frames"])))


@contextmanager
def watching(at: RunningGateway, viewers: int, told: dict[str, Any]) -> Iterator[None]:
    """Have so many people look at the list while the block lasts; what they saw is told."""
    if not viewers:
        yield
        return
    command = [sys.executable, "-m", "tests.tools.page_figures", str(at.port), at.token, str(viewers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()  # all of them follow
        try:
            yield
        finally:
            process.stdin.close()
            told |= codec.loads(process.stdout.read())


def work_watched(url: str, viewers: int) -> dict[str, Any]:
    """Measure the fleet on an empty server, with so many people who look at the list."""
    with clients.connect(url) as client:
        client.flushall()
        functions.load(client)
        site = Site(client, url, "solo", say, SIZES)
        with site.workers() as workers, gateway(client, url) as at:
            told: dict[str, Any] = {}
            before = cpu.usage(client, at.pid).worker
            began = time.perf_counter()
            with watching(at, viewers, told):
                figures = throughput(site, workers)
                took = time.perf_counter() - began
            return {**figures, **told, "gateway_share": (cpu.usage(client, at.pid).worker - before) / took}


async def _view(port: int, token: str, ready: asyncio.Semaphore, told: list[float], waits: list[float]) -> None:
    """Follow the list as the page does; notes how many ms the first event after a list was older than the next list."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MOST_BYTES)
    writer.write(_request("/live", token))
    last = None
    while True:
        await reader.readuntil(b"event: page\n")
        await reader.readuntil(b"\n\n")
        now = time.perf_counter()
        if last is None:
            ready.release()
        elif (first := bisect_right(told, last)) < len(told):
            waits.append(1000 * (now - told[first]))
        last = now


async def _note_events(port: int, token: str, told: list[float]) -> None:
    """Note when events of plans come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request("/v1/events?types=plan.*", token))
    while piece := await reader.read(65536):
        if b"event:" in piece:
            told.append(time.perf_counter())


def _request(path: str, token: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


async def _viewers(port: int, token: str, count: int) -> None:
    told: list[float] = []
    waits: list[float] = []
    ready = asyncio.Semaphore(0)
    watching = [asyncio.create_task(_view(port, token, ready, told, waits)) for _ in range(count)]
    for _ in watching:
        await ready.acquire()
    watching.append(asyncio.create_task(_note_events(port, token, told)))
    began = time.perf_counter()
    print("ready", flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)
    seconds = time.perf_counter() - began
    cuts = quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
    found = {"lists_per_s": len(waits) / seconds, "wait_p50_ms": cuts[49], "wait_p99_ms": cuts[98]}
    print(codec.dumps(found).decode(), flush=True)  # noqa: T201
    for task in watching:
        task.cancel()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")  # noqa: T201


def measure_views(url: str) -> None:
    """Print what each view costs."""
    with clients.connect(url) as client:
        functions.load(client)
        site = Site(client, url, "solo", say, SIZES)
        with site.workers(), gateway(client, url) as at, chromium() as browser:
            rows = [("list, no plan", ask(client, at, "/"), open_in(browser, at, "/"))]
            for steps in STEPS:
                say(f"A plan of {steps} steps")
                path = f"/plans/{plan_of(client, steps)}"
                rows.append((f"plan, {steps:,} steps", ask(client, at, path), open_in(browser, at, path)))
            say(f"{LISTED} plans")
            site.submit_new(LISTED, 1)
            for name, path in ((f"list of {LISTED:,} plans", "/"), ("the same, 500 on a page", "/?limit=500")):
                rows.append((name, ask(client, at, path), open_in(browser, at, path)))
            scrolled = scroll_in(browser, at, LISTED)
    table(
        ("view", "answered in, ms", "CPU of the gateway, ms", "kB", "usable in Chromium after, ms"),
        [
            (name, f"{told['ms']:.0f}", f"{told['cpu_ms']:.0f}", f"{told['bytes'] / 1000:.0f}", f"{usable:.0f}")
            for name, told, usable in rows
        ],
    )

    print()  # noqa: T201
    table(("plans scrolled through", "between two frames: p50, ms", "p99, ms", "the longest, ms"), [scrolled])


def measure_viewers(url: str) -> None:
    """Print what people who look cost the fleet."""
    rows = []
    for viewers in (0, VIEWERS, 0, VIEWERS):
        say(f"{viewers} people look")
        told = work_watched(url, viewers)
        rows.append(
            (
                f"{viewers}",
                f"{told['outcomes_per_s']:,.0f}",
                f"{told['worker_cpu_us']:.0f}",
                f"{told['server_cpu_us']:.0f}",
                f"{told['gateway_share']:.2f}",
                f"{told.get('lists_per_s', 0):.0f}",
                f"{told.get('wait_p50_ms', 0):.0f}",
                f"{told.get('wait_p99_ms', 0):.0f}",
            )
        )
    table(
        (
            *("people who look", "outcomes/s", "worker's CPU an outcome, µs", "server's, µs", "gateway, cores"),
            *("lists/s", "a change is shown after, p50, ms", "p99, ms"),
        ),
        rows,
    )


def main() -> None:
    """Measure everything, on a server of its own."""
    say(f"Load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name, running(EMBEDDED, Path(name)) as url:
        measure_views(url)
        print()  # noqa: T201
        measure_viewers(url)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with suppress(KeyboardInterrupt):
            asyncio.run(_viewers(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
    else:
        main()
