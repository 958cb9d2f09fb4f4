"""What the documentation shows, to be tried as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOOLS_EXAMPLE, OTHER_LANGUAGES_EXAMPLE = re.findall(r"```toml\n(.*?)```", (DOCS / "tools.md").read_text(), re.S)[:2]
