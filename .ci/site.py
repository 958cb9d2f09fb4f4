"""Hooks of MkDocs: the site loads nothing from another host, and links to files outside of it become text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]
SHIM = re.compile(r"https://[\w./@-]+/iframe-worker/shim")
LOADED = re.compile(r'<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|href|srcset)="(?:https?:)?//[^"]*"')
OUTSIDE = r"(?:\.\./)+(?:tests/|compose\.yaml|CHANGELOG\.md)?|schemas/?|examples/systemd"
IN_CHECKOUT = re.compile(rf"\[([^\]]+)\]\((?:{OUTSIDE})\)")


def on_config(config: Any) -> Any:
    """Name the version below each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.copyright = f"{project['name']} {project['version']}"
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside of the site by their text."""
    return IN_CHECKOUT.sub(r"\1", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load the search's shim from the site; raises PluginError if a page loads a file from another host."""
    up = "../" * page.file.src_uri.count("/")
    output = SHIM.sub(f"{up}site/iframe-worker.js", output)
    if loaded := LOADED.findall(output):
        raise PluginError(f"{page.file.src_uri} loads from another host: {loaded}")
    return output


def on_post_template(output_content: str, **_: Any) -> str:
    """Load the shim from the site in the page for unknown addresses."""
    return SHIM.sub("/site/iframe-worker.js", output_content)
