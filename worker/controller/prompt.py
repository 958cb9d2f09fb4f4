"""What an agent is asked, as text: the template of its data file, filled in from the spec of the step.

A paragraph of the template goes where what it would be filled with is empty.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from schemas import codec
from schemas.base import Mode
from worker.agents.readers import NOTHING
from worker.controller.given_data import given_data
from worker.controller.wire import Spec, Tool

PLACE = re.compile(r"\{(title|task|hint|guidance|criteria|files|limits|checks|schema|data)\}")
NO_FILE = "Change no file: your answer is what counts."
NO_NEED = f"If no file has to be changed, change none, and begin your answer with `{NOTHING}` and the reason."


def prompt(spec: Spec, template: str) -> str:
    """Ask for the step `spec`."""
    values = _values(spec)
    return "\n\n".join(_filled(template, values)) + "\n"


def _filled(template: str, values: dict[str, str]) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", template.strip()):
        if all(values[name] for name in PLACE.findall(paragraph)):
            yield PLACE.sub(lambda found: values[found[1]], paragraph)


def _values(spec: Spec) -> dict[str, str]:
    asked = spec.input if isinstance(spec.input, dict) else {}
    question = asked.get("prompt")
    patches = spec.mode is Mode.PATCH
    most = spec.limits.max_diff_lines
    return {
        "title": spec.title or spec.step_id,
        "task": question if isinstance(question, str) else spec.intent,
        "hint": spec.controller_task_spec.hint or "",
        "guidance": spec.guidance or "",
        "criteria": f"It is done when: {spec.success_criteria}" if spec.success_criteria else "",
        "files": _files(spec) if patches else NO_FILE,
        "limits": f"The change has {most} lines at the most." if patches and most is not None else "",
        "checks": _checks(spec) if patches else "",
        "schema": _schema(asked.get("schema")),
        "data": given_data(spec.context, *_told(spec, question)),
    }


def _files(spec: Spec) -> str:
    listed = "\n".join(f"- {path}" for path in spec.allowed_files)
    return f"Change these files and no others; make the ones that are missing:\n{listed}\n\n{NO_NEED}"


def _checks(spec: Spec) -> str:
    if not spec.verify_tools:
        return ""
    listed = "\n".join(f"- `{command(tool)}`" for tool in spec.verify_tools)
    return f"Afterwards this is run, and has to pass:\n{listed}"


def command(tool: Tool) -> str:
    """Return a verification as a shell would read it."""
    return shlex.join(tool.argv)


def _schema(schema: object) -> str:
    if not schema:
        return ""
    return f"Answer with one JSON value and nothing else. Its schema:\n{codec.dumps(schema).decode()}"


def _told(spec: Spec, question: object) -> Iterator[tuple[str, str]]:
    """Yield what the plan gives along without asking for it in words."""
    if spec.input is not None and not isinstance(question, str):
        yield "What the plan says of this step (from the plan)", codec.pretty(spec.input).decode()
