"""Examples of the documentation, so that tests can run them exactly as printed."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOOLS_EXAMPLE, OTHER_LANGUAGES_EXAMPLE = re.findall(r"```toml\n(.*?)```", (DOCS / "tools.md").read_text(), re.S)[:2]
