"""Gap reports as they are published, and controllers whose steps all succeed or all fail."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tests.support.kinds.gap_report import a_gap

FILES = [f"src/m{number}.py" for number in range(8)]
RUFF = a_gap("Quality check failed: ruff", "quality", priority="urgent", evidence="src/a.py:1:8: F401 `os` unused\n")


def a_goal(*gaps: dict[str, Any], allowed: list[str], repo: str = "", **given: Any) -> dict[str, Any]:
    report = {"gaps": list(gaps), "most_critical": gaps[0] if gaps else None}
    context = {"language": "python", "files": ["src/a.py", *FILES], **({"repo": repo} if repo else {})}
    body = {"goal": "Close it", "kind": "gap_report", "allowed_files": allowed, "context": context}
    return {**body, "gap_report": {"gap_report": report, **given}}


def succeeds(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Do as asked: touch all that may be touched."""
    return {"touched_files": spec["allowed_files"], "tests_passed": True if spec["verify_tools"] else None}


def fails(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fail every step with verification, each time with a different message."""
    if not spec["verify_tools"]:
        return succeeds(spec)
    trace = {"category": "LINT_ERROR", "stack_trace_head": f"src/b.py: {uuid.uuid4().hex} is wrong"}
    return {"success": False, "tests_passed": False, "failure_evidence": trace}
