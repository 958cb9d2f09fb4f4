"""Hooks of MkDocs: no file of another host, links out of the site as text, and Mermaid blocks as drawings."""

from __future__ import annotations

import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]
SHIM = re.compile(r"https://[\w./@-]+/iframe-worker/shim")
LOADED = re.compile(r'<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|href|srcset)="(?:https?:)?//[^"]*"')
OUTSIDE = r"(?:\.\./)+(?:tests/|compose\.yaml|CHANGELOG\.md)?|schemas/?|examples/systemd"
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
IN_CHECKOUT = re.compile(rf"\[([^\]]+)\]\((?:{OUTSIDE})\)")


def on_config(config: Any) -> Any:
    """Name the version below each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.copyright = f"{project['name']} {project['version']}"
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside of the site by their text, and Mermaid blocks by their drawings."""
    return MERMAID.sub(_drawing, IN_CHECKOUT.sub(r"\1", markdown))


def _drawing(block: re.Match[str]) -> str:
    path = f"diagrams/{sha256(block[1].encode()).hexdigest()[:16]}.svg"
    if not (ROOT / "docs" / path).exists():
        raise PluginError(f"A Mermaid block has no drawing {path}: run python -m tests.tools.draw_diagrams")
    return f"![{block[1].split(maxsplit=1)[0]}]({path})"


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
