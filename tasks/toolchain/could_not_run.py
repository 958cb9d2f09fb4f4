"""Whether a tool ran at all: what keeps it from that says nothing of the code that it was to verify."""

from __future__ import annotations

from collections.abc import Collection

from tasks.toolchain.contract import Contract

NOT_FOUND = (126, 127)  # as a shell says that it cannot run a program
MAX_LINE = 300


def why_not_run(
    contract: Contract | None, exit_code: int, output: str = "", *, ran_codes: Collection[int] = ()
) -> str | None:
    """Return why a tool could not run, by its exit code and what it printed; None where it ran.

    `ran_codes` are more of them, as a spec has them. A code that passes is not doubted for a text in some
    of the lines: other lines may be of what did run.
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
    """Whether the repository defines what a tool runs."""
    return contract.positional.endswith("_script") or contract.id in ("npm-test", "tox")
