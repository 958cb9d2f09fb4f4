"""Draws the Mermaid blocks of docs/ for the site: `PLANNER_TEST_NODE_MODULES=DIR python -m tests.tools.draw_diagrams`.

DIR has npm's `mermaid@11`, and Debian's Chromium draws. A file has the digest of its block as its name, so a changed
block without a new drawing fails the build of the site.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "diagrams"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)  # as in .ci/site.py
LOOK = {"startOnLoad": False, "theme": "neutral", "htmlLabels": False, "flowchart": {"htmlLabels": False}}
BROWSER = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom")
SEEN_ON = "background: #fff;"  # dark letters, on the dark site too


def main() -> None:
    """Draw each block, and delete drawings without a block."""
    blocks = {digest(block): block for page in sorted(DOCS.glob("*.md")) for block in BLOCK.findall(page.read_text())}
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.svg"):
        if path.stem not in blocks:
            path.unlink()
    for name, block in blocks.items():
        if not (path := FOLDER / f"{name}.svg").exists():
            path.write_text(draw(name, block))
            print(path.name)  # noqa: T201


def digest(block: str) -> str:
    """Return the name of a block's drawing."""
    return sha256(block.encode()).hexdigest()[:16]


def draw(name: str, block: str) -> str:
    """Return the SVG of one block; raises ValueError if Mermaid cannot read it."""
    library = Path(os.environ["PLANNER_TEST_NODE_MODULES"]) / "mermaid/dist/mermaid.min.js"
    script = (
        f"mermaid.initialize({json.dumps(LOOK)});"
        f"mermaid.render('d{name}', {json.dumps(block)}).then(({{svg}}) => {{"
        "document.body.textContent = new XMLSerializer().serializeToString("
        "new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement)})"
    )
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f'<body></body><script src="{library.resolve().as_uri()}"></script><script>{script}</script>')
        dumped = subprocess.run(
            (*BROWSER, page.as_uri()), capture_output=True, text=True, check=True, timeout=120
        ).stdout
    found = re.search(r"<body>(.*)</body>", dumped, re.DOTALL)
    svg = html.unescape(found[1]) if found else ""
    if not svg.startswith("<svg"):
        raise ValueError(f"Mermaid drew nothing of {block[:60]!r}.")
    return svg.replace('style="', f'style="{SEEN_ON} ', 1).rstrip() + "\n"


if __name__ == "__main__":
    main()
