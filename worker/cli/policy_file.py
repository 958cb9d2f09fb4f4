"""Files of policies, read as every command reads them: with each mistake told by its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.cli.console import USAGE, Failure, read_source

if TYPE_CHECKING:
    from tasks.base.policy import Policy


def read_policy_file(source: str) -> tuple[bytes, Policy]:
    """Read the text and the rules of a policy, from stdin for `-`; raises Failure with every mistake."""
    from schemas.envelope import FieldError
    from tasks.base.policy_text import MAX_BYTES, WrongPolicy, read_policy

    text = read_source(source, MAX_BYTES)
    try:
        return text, read_policy(text)
    except WrongPolicy as error:
        errors = [
            FieldError(pointer=each.key, code="wrong_policy", message=str(each._replace(key="")))
            for each in error.mistakes
        ]
        raise Failure.of("wrong_policy", f"{source} is no policy.", USAGE, errors) from error
