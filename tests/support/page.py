"""Reads the page over HTTP for tests: signs in, and reads the HTML and its forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx

from schemas.api_key import Right
from tests.support.gateway import Gateway

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e\"'{{ 7*7 }}"


class Markup(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def links(self, pattern: str) -> list[str]:
        found = (of.get("href") or "" for tag, of in self.elements if tag == "a")
        return [each for each in found if re.fullmatch(pattern, each)]


def signed_in(gateway: Gateway, *rights: Right, **of: Any) -> httpx.Client:
    """A browser that has signed in with a new key."""
    client = gateway.with_token(None)
    client.headers.update({"Origin": gateway.url, "Accept": "text/html"})
    assert client.post("/sign-in", data={"key": gateway.key(*rights, **of)}).status_code == 303
    return client
