"""A simulated forge: GitHub's and GitLab's API for pull requests and commit statuses, with answers that a test sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

STATUSES = ("/github/repos/acme/shop/statuses", "/gitlab/projects/acme%2Fshop/statuses")
TOKEN = "ghp_a1b2c3d4e5f6a1b2c3d4e5f6"


@dataclass
class ForgeServer:
    """The requests and the content of a forge.

    If `status` is set, it is the status of every answer. The forge calls `opened` after it has opened a pull request
    and before it answers.
    """

    url: str = ""
    pull_requests: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    opened: Callable[[], None] = lambda: None
    told: dict[str, Any] = field(default_factory=dict)  # what reads are answered, by path
    moved: dict[str, str] = field(default_factory=dict)  # where they are sent on to

    def answer(self, method: str, target: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        """Answer one call as the forges do."""
        self.asked.append(f"{method} {target}")
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("private-token")
        if given != TOKEN:
            return 401, {"message": f"Bad credentials {given}"}
        if self.status:
            return self.status, {"message": f"no, not with {given}"}
        places = {
            "/github/repos/acme/shop/pulls": "head",
            "/gitlab/projects/acme%2Fshop/merge_requests": "source_branch",
        }
        if url.path in self.moved:
            return 302, {}
        if url.path in self.told:
            return 200, self.told[url.path]
        if method == "POST" and url.path.rpartition("/")[0] in STATUSES:
            self.statuses.append(body)
            return 201, body
        if url.path not in places:
            return 404, {"message": "Not Found"}
        if method == "GET":
            head = query[places[url.path]].removeprefix("acme:")
            return 200, [found for found in self.pull_requests if found["head"] == head]
        ours = [found for found in self.pull_requests if "source_project_id" not in found]
        if any(found["head"] == body[places[url.path]] for found in ours):
            return 422, {"message": "Validation Failed"}
        number = len(self.pull_requests) + 1
        name = "html_url" if places[url.path] == "head" else "web_url"
        made = {"head": body[places[url.path]], name: f"https://forge.example/acme/shop/pull/{number}", "given": body}
        self.pull_requests.append(made)
        self.opened()
        return 201, made


Played = TypeVar("Played", bound=ForgeServer)


def serving() -> AbstractContextManager[ForgeServer]:
    """Answer at `url` while the block lasts."""
    return playing(ForgeServer())


@contextmanager
def playing(forge: Played) -> Iterator[Played]:
    """Have `forge` answer at its `url` while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            try:
                status, said = forge.answer(
                    self.command, self.path, {n.lower(): v for n, v in self.headers.items()}, body
                )
            except ConnectionResetError:
                self.close_connection = True
                return
            data = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            moved = {"Location": forge.moved[urlsplit(self.path).path]} if status == 302 else {}
            for name, value in {**forge.headers, **moved, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    forge.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield forge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
