"""What an agent is asked, as text: the template of its data file, filled in from the spec of the step.

A paragraph of the template goes where what it would be filled with is empty.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from schemas import codec
from schemas.base import Mode
from worker.agents.readers import NOTHING
from worker.controller.given_data import given_data
from worker.controller.needs import MARK
from worker.controller.wire import Spec, Tool

SENTENCES = re.compile(r"(?<=[.!?])\s+|\s+(?=[A-Z]\w*: )")  # a label such as `Check: ` begins one as well
LABEL = re.compile(r"^[A-Z]\w*: ")
CLAUSES = re.compile(r"[;:]\s+")
LINE_MARKS = re.compile(r"^(?:\| )?(?:- )?")  # of a line that is quoted or listed
ENDS = " .;…"
PLACE = re.compile(r"\{(title|task|hint|guidance|criteria|files|limits|checks|schema|data)\}")
NO_FILE = "Change no file: your answer is what counts."
NO_NEED_IN_JSON = "If no file has to be changed, change none, and say why in `nothing_to_change` of your answer."
NO_NEED = f"If no file has to be changed, change none, and begin your answer with `{NOTHING}` and the reason."
OTHERS_IN_JSON = (
    "If another file has to be changed, leave it as it is, and name it in your answer: "
    '`"needs": {"files": [paths], "reason": why}`.'
)
OTHERS = (
    f"If another file has to be changed, leave it as it is, and begin your answer with `{MARK}` and the paths, "
    "with the reason in the line below."
)
PATTERNS = (
    "You may change, and make, the files that these patterns mean "
    "(`*` and `?` stay within a folder, `**` means any folders):"
)
NO_CONFIGURATION = "No pattern means a file that configures tests, builds or CI."
SHOWN_EXCLUDED = 30


def prompt(spec: Spec, template: str, known: Sequence[tuple[str, str]] = ()) -> str:
    """Ask for the step `spec`; `known` are titles and texts of what is known beside it."""
    values = _values(spec, known)
    return "\n\n".join(_filled(template, values)) + "\n"


def _filled(template: str, values: dict[str, str]) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", template.strip()):
        if all(values[name] for name in PLACE.findall(paragraph)):
            yield PLACE.sub(lambda found: values[found[1]], paragraph)


def _values(spec: Spec, known: Sequence[tuple[str, str]]) -> dict[str, str]:
    asked = spec.input if isinstance(spec.input, dict) else {}
    question = asked.get("prompt")
    asks = isinstance(question, str)  # in words that say all of it
    patches = spec.mode is Mode.PATCH
    most = spec.limits.max_diff_lines
    return {
        "title": spec.title or spec.step_id,
        "task": question if isinstance(question, str) else spec.intent,
        "hint": "" if asks else spec.controller_task_spec.hint or "",
        "guidance": "" if asks else spec.guidance or "",
        "criteria": f"It is done when: {spec.success_criteria}" if spec.success_criteria and not asks else "",
        "files": _files(spec, asked.get("schema")) if patches else NO_FILE,
        "limits": f"The change has {most} lines at the most." if patches and most is not None else "",
        "checks": _checks(spec) if patches else "",
        "schema": _schema(asked.get("schema")),
        "data": given_data(spec.context, *places(spec), *_told(spec, question), *known),
    }


def _files(spec: Spec, schema: object) -> str:
    no_need = NO_NEED_IN_JSON if schema else NO_NEED
    others = OTHERS_IN_JSON if schema else OTHERS
    return "\n\n".join((*_permission(spec), no_need, others))


def _permission(spec: Spec) -> Iterator[str]:
    """Say in words which files may be changed, and how many."""
    named = _listed(spec.allowed_files)
    if not spec.allowed_patterns:
        yield f"Change these files and no others; make the ones that are missing:\n{named}"
        return
    if named:
        yield f"Change what has to be changed, most likely of these files:\n{named}"
    yield f"{PATTERNS}\n{_listed(spec.allowed_patterns)}"
    if spec.excluded_patterns:
        shown = ", ".join(spec.excluded_patterns[:SHOWN_EXCLUDED])
        more = ", and others like them" if len(spec.excluded_patterns) > SHOWN_EXCLUDED else ""
        yield f"But none that is not named above and that one of these means: {shown}{more}."
    yield NO_CONFIGURATION
    if spec.limits.max_files is not None:
        yield f"Change {spec.limits.max_files} files at the most."


def _listed(paths: Sequence[str]) -> str:
    return "\n".join(f"- {path}" for path in paths)


def places(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield where to look first, which is said by tools and earlier answers."""
    if spec.focus:
        found = (f"{each.path}{f':{each.lines}' if each.lines else ''}  {each.why}".rstrip() for each in spec.focus)
        yield "Where to look first (from the planner)", "\n".join(found)


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
    if isinstance(question, str):
        # A first answer needs its question alone; after a failure the planner may have added advice.
        if (spec.mode is Mode.PATCH or spec.attempt > 1) and (more := "\n".join(_beside(spec, question))):
            yield "What else the plan says of this step (from the planner)", more
    elif spec.input is not None:
        yield "What the plan says of this step (from the plan)", codec.pretty(spec.input).decode()


def _beside(spec: Spec, question: str) -> Iterator[str]:
    """Yield what hint, guidance and success criteria of the step say that its question does not."""
    asked = " ".join(word for line in question.splitlines() for word in LINE_MARKS.sub("", line).split())
    for said in (spec.controller_task_spec.hint, spec.guidance):
        if text := _untold(said or "", asked):
            yield text
    if text := _untold(spec.success_criteria, asked):
        yield f"It is done when: {text}"


def _untold(text: str, asked: str) -> str:
    """Keep the sentences of `text` of which a clause is not in `asked`, where they may stand as lists."""
    return " ".join(sentence for sentence in SENTENCES.split(text.strip()) if not _is_told(sentence, asked))


def _is_told(sentence: str, asked: str) -> bool:
    clauses = CLAUSES.split(LABEL.sub("", " ".join(sentence.split()), count=1))
    return all(clause.strip(ENDS) in asked for clause in clauses)
