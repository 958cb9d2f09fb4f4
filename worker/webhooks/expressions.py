"""Evaluates JMESPath over a payload: conditions, values, and text with expressions in double braces.

An operator writes the expressions, but the payload is untrusted: so only text, numbers and booleans are taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from tasks.base.errors import PlannerError

_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_SEPARATORS = " \t\n:;,|-\u2013\u2014"  # removed next to an expression with the value null
_BODY = re.compile(r"(?:issue|comment|review|pull_request)\.body")  # without a text a forge has null there
Scalar = str | int | float | bool


class WrongExpression(PlannerError):
    """This is no JMESPath expression."""


class Missing(PlannerError):
    """The payload has no text, number or boolean where an expression looks."""

    def __init__(self, expression: str) -> None:
        super().__init__(f"missing: {expression}")


def check(expression: str) -> None:
    """Raise WrongExpression if `expression` is invalid."""
    _compiled(expression)


def check_template(template: str) -> None:
    """Raise WrongExpression if an expression in braces is invalid, or if braces are not closed."""
    literal, expressions = _PLACE.sub("", template), _PLACE.findall(template)
    if "{{" in literal or "}}" in literal:
        raise WrongExpression("has {{ without }}, or the reverse")
    for each in expressions:
        check(each)


def holds(expression: str, payload: Any) -> bool:
    """Return whether a condition holds: null, false and empty values are false, as in JMESPath itself."""
    found = _search(expression, payload)
    return not (found is None or found is False or (isinstance(found, str | list | dict) and not found))


def scalar(expression: str, payload: Any) -> Scalar:
    """Return the text, number or boolean that an expression finds; "" for a comment or issue without text.

    Raises Missing.
    """
    found = _search(expression, payload)
    if found is None and _BODY.fullmatch(expression.strip()) and _is_null(expression, payload):
        return ""
    if not isinstance(found, str | int | float | bool):
        raise Missing(expression.strip())
    return found


def rendered(template: str, payload: Any) -> str:
    """Return the template with values in place of its expressions. Raises Missing.

    Braces in a value have no effect.
    """
    return "".join(_pieces(template, payload))


def prose(template: str, payload: Any) -> str:
    """Return the template like `rendered`, but with nothing in place of null values, such as an issue without a text.

    Raises Missing if all values are null, unless they are the text of an issue or comment.
    """
    literals, places = _PLACE.split(template)[::2], _PLACE.findall(template)
    nulls = [each for each in places if _is_null(each, payload)]
    if not nulls:
        return rendered(template, payload)
    unknown = [each.strip() for each in nulls if not _BODY.fullmatch(each.strip())]
    if unknown and len(nulls) == len(places):
        raise Missing(unknown[0])
    found = ["" if each in nulls else rendered(f"{{{{{each}}}}}", payload) for each in places]
    return "".join(part for pair in zip(literals, (*found, ""), strict=True) for part in pair).strip(_SEPARATORS)


def _is_null(expression: str, payload: Any) -> bool:
    """Return whether a dotted path leads to an existing null."""
    *above, last = expression.strip().split(".")
    found = payload
    for name in above:
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict) and last in found and found[last] is None


def _pieces(template: str, payload: Any) -> Iterator[str]:
    for place, piece in enumerate(_PLACE.split(template)):  # literal, expression, literal, ...
        found = scalar(piece, payload) if place % 2 else piece
        yield str(found).lower() if isinstance(found, bool) else str(found)


def _search(expression: str, payload: Any) -> Any:
    """Return the value of an expression; None also if the payload's types do not fit its functions."""
    try:
        return _compiled(expression).search(payload)
    except (JMESPathError, RecursionError, TypeError, ValueError, ArithmeticError):
        return None


@cache  # an operator's file has few
def _compiled(expression: str) -> Any:
    try:
        return jmespath.compile(expression.strip())
    except (JMESPathError, RecursionError) as error:
        raise WrongExpression(f"is no JMESPath: {' '.join(str(error).split())}") from error
