"""Words from outside, cleaned for the documents and truncated for the steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from operator import getitem
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from schemas.wording import expected
from tasks.text.fields import as_written, fit
from tasks.text.sanitize import Treatment, sanitize
from tasks.text.unicode import INVISIBLE

M = TypeVar("M", bound=BaseModel)

CODE, DRAWING = "diff", "diagram_ascii"  # the fields that are no prose
FREELY_NAMED = "params"  # the field whose keys are a writer's own words
CONTROLS = re.compile(rf"{INVISIBLE.pattern}|[\x0b-\x0d\x85\u2028\u2029]")
MAX_FAULTS = 5  # reported at once


def clean_words(value: Any, name: str = "") -> Any:
    """Return a copy of a valid document with all texts and keys sanitized; code stays unchanged."""
    if isinstance(value, str):
        # In a harmless drawing every character matters.
        drawn = name == DRAWING and not CONTROLS.search(value) and not sanitize(value, Treatment.FLAG).findings
        return value if name == CODE or drawn else sanitize(value).text
    if isinstance(value, dict):
        free = name == FREELY_NAMED
        return {sanitize(key).text: clean_words(each, "" if free else key) for key, each in value.items()}
    return [clean_words(each, name) for each in value] if isinstance(value, list) else value


def fit_model(model: type[M], value: M) -> M:
    """Return a sanitized copy of a document; texts that are then too long are cut to the limit of their field.

    Raises ValidationError if a text is still not valid.
    """
    known = model.model_validate(value.model_dump(mode="json"), extra="ignore")
    body = clean_words(known.model_dump(mode="json"))
    try:
        return model.model_validate(body)
    except ValidationError as error:  # cleaning may make a text longer
        for each in error.errors():
            *place, last = each["loc"]
            if each["type"] == "string_too_long" and last != "[key]":
                record: Any = reduce(getitem, place, body)
                record[last] = fit(record[last], each["ctx"]["max_length"], as_written)
    return model.model_validate(body)


def explain(error: ValidationError) -> str:
    """Return the faults in a validation error as one sentence, without the wrong values."""
    return sum_up(f"{'.'.join(map(str, each['loc']))[:100] or 'output'}: {expected(each)}" for each in error.errors())


def sum_up(faults: Iterable[str]) -> str:
    """Return the first faults as one sentence; empty if there are none."""
    some = list(faults)
    more = f" (and {len(some) - MAX_FAULTS} more)" if len(some) > MAX_FAULTS else ""
    return fit("; ".join(some[:MAX_FAULTS]), 900) + more
