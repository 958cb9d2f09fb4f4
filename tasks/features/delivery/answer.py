"""Reads a controller's answer about a delivery: the names of a branch and a pull request, as data from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_BRANCH, MAX_URL = 250, 2000
MOST_LINES = 10**9
# Not in the name of a branch: text that git-check-ref-format refuses, or that git or a command misreads.
_NO_BRANCH = re.compile(r"[ ~^:?*\[\\]|\.\.|//|@\{|(?:^|/)\.|\.lock(?:/|$)|^(?:@|HEAD)?$|^[-/]|[/.]$")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_URL = re.compile(r"https?://[\w.~:/?#\[\]@!$&'()*+,;=%-]+", re.ASCII)


def fault_of(output: Any) -> str | None:
    """Return why an answer describes no delivery, or None; the answer is data from outside."""
    if not isinstance(output, dict):
        return "`output` must be an object with `branch` and `pull_request`"
    branch, url = output.get("branch"), output.get("pull_request")
    if not isinstance(branch, str) or not is_branch(branch):
        return f"`output.branch` must be the name of a branch, of at most {MAX_BRANCH} characters"
    if url is not None and not (isinstance(url, str) and len(url) <= MAX_URL and _URL.fullmatch(url)):
        return f"`output.pull_request` must be null or an http or https URL of at most {MAX_URL} characters"
    return None


def moved_to(output: Any, landed: Sequence[str]) -> str:
    """Return the target's new commit if an answer without a branch names one; else an empty text."""
    at = output.get("target_sha") if isinstance(output, dict) and not output.get("branch") else None
    return at if isinstance(at, str) and COMMIT.fullmatch(at) and at not in landed else ""


def is_branch(name: str) -> bool:
    """Return whether `name` may be the name of a branch."""
    return len(name) <= MAX_BRANCH and name.isprintable() and _NO_BRANCH.search(name) is None


def lines_in(output: Mapping[str, Any]) -> int:
    """Return the number of lines to review; 0 if the controller did not count them."""
    lines = output.get("lines")
    return min(lines, MOST_LINES) if type(lines) is int and lines > 0 else 0
