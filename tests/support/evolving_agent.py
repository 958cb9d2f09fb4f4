"""An honest agent that knows only its spec: it drafts a plan, carries out a step, measures it, and sometimes errs.

Standard input is the spec. The file that the first argument names counts the runs. Every third run errs, beginning with
the one that the second argument gives. A run does not err if its spec reports an earlier error.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Do the step."""
    spec = json.load(sys.stdin)
    count = Path(sys.argv[1])
    runs = 1 + (len(count.read_text()) if count.exists() else 0)
    count.write_text("|" * runs)
    errs = runs % 3 == int(sys.argv[2]) and spec["context"].get("previous_failure") is None
    if errs:
        count.with_name("mistakes").open("a").write(f"{spec['step_id']}\n")
    given = spec["input"]
    if "prompt" in given:
        report = {"output": "I would look at fewer titles." if errs else draft(given["prompt"])}
    else:
        report = carry_out(given["step"]["actions"], errs=errs)
    sys.stdout.write(json.dumps(report))


def draft(prompt: str) -> dict[str, Any]:
    """Plan the prompt's task by its schema; the plan cites the last inspiration of the prompt."""
    files = re.findall(r"^\| - (\S+\.py)$", prompt, re.MULTILINE)
    learnt = re.findall(r"^\| Hash: (\S+)$", prompt, re.MULTILINE)[-1]
    block = int(re.findall(r"^BLOCK = (\d+)$", Path(files[0]).read_text(), re.MULTILINE)[0])
    wider, most = 2 * block, 400 // (2 * block) + 2 * block
    about = "So that a query looks at fewer titles."
    change = f"In {files[0]} replace `BLOCK = {block}` with `BLOCK = {wider}`."
    prove = f"In {files[1]} replace `MOST = .*` with `MOST = {most}`."
    parts = [("widen", files[0], change, []), ("prove", files[1], prove, ["widen"])]
    return {
        "plan_summary": f"Blocks of {wider} titles, of which a query looks at {most} at the most",
        "rationale": f"Blocks of {block} are looked at one by one: the wider a block, the fewer there are.",
        "focus_metrics": ["looked_at"],
        "guardrails": ["Every title is found."],
        "risks": ["A block that is too wide is slow again."],
        "validation": ["pytest -q"],
        "steps": [
            {"id": name, "title": f"{name.title()} {file}", "intent": about, "files": [file], "dependencies": after,
             "actions": [*[f"Read {file}, line by line, before anything is changed in it. " * 2] * 10, action],
             "references": [learnt], "validation": ["pytest -q"]}
            for name, file, action, after in parts
        ],
    }  # fmt: skip


def carry_out(actions: list[str], *, errs: bool) -> dict[str, Any]:
    """Make the change of the last action and measure the result.

    A hint that is cut off has lost its last action.
    """
    found = re.fullmatch(r"In (\S+) replace `(.*)` with `(.*)`\.", actions[-1])
    assert found
    file = Path(found[1])
    text = re.sub(rf"^{found[2]}$", "BLOCK = 0" if errs else found[3], file.read_text(), count=1, flags=re.MULTILINE)
    file.write_text(f"{text}assert False\n" if errs else text)
    if errs:
        return {"patch_cycles": 1}
    looked_at = subprocess.run([sys.executable, "evaluate.py"], capture_output=True, text=True, check=True).stdout
    return {"patch_cycles": 1, "evaluation": {"looked_at": float(looked_at)}}


if __name__ == "__main__":
    main()
