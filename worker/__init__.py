"""The machine: Celery, Redis, the command line, Sentry, the clock and the environment."""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # httpx's command line: rich, click and pygments
