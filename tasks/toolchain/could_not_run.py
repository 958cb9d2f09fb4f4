"""Detects tools that could not run; such an attempt proves nothing about the code."""

from __future__ import annotations

from collections.abc import Collection

from tasks.toolchain.contract import Contract

NOT_FOUND = (126, 127)  # the exit codes of a shell that cannot run a program
MAX_LINE = 300


def why_not_run(
    contract: Contract | None, exit_code: int, output: str = "", *, ran_codes: Collection[int] = ()
) -> str | None:
    """Return why a tool could not run, by its exit code and its output; None if it ran.

    `ran_codes` are additional codes from a spec. A passing code is not doubted because of a text in some of the lines:
    other lines may come from the part that ran.
    """
    passes, ran = (contract.pass_codes, contract.ran_codes) if contract else ((), ())
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    texts = [text.casefold() for text in contract.cannot_run] if contract else []
    telling = [line for line in lines if any(text in line.casefold() for text in texts)]
    if telling and (exit_code not in passes or len(telling) == len(lines)):
        return telling[0][:MAX_LINE]
    if exit_code in NOT_FOUND or exit_code not in {*passes, *ran, *ran_codes}:
        return f"exit code {exit_code}{f': {lines[-1]}' if lines else ''}"[:MAX_LINE]
    return None


def runs_script(contract: Contract) -> bool:
    """Return whether the repository defines the command that a tool runs."""
    return contract.positional.endswith("_script") or contract.id in ("npm-test", "tox")
