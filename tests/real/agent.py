"""An agent that knows a fix: it is run by a controller, and imports nothing but the standard library.

`python agent.py KNOWLEDGE RUNS` reads the spec of a step, changes what the fix changes within what the step may change,
and leaves a file in the folder RUNS about each run.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FIX, NOTHING, CLAIMS, TESTS = "fix", "nothing", "claims", "tests"  # what an agent does about a step that patches
PRINTED = 3_000_000  # bytes, by a naive one
KINDS = (FIX, NOTHING, CLAIMS, TESTS)
COMMENTS = {".py": "# looked at\n", ".go": "// looked at\n", ".rs": "// looked at\n"}
BREAKING = {
    ".py": 'raise RuntimeError("a wrong change")\n',
    ".go": 'func init() { panic("a wrong change") }\n',
    ".rs": 'compile_error!("a wrong change");\n',
}
OTHER_COMMENT, OTHER_BREAKING = "// looked at\n", 'throw new Error("a wrong change");\n'

Spec = dict[str, Any]


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern of the wire has `path`: `*` and `?` within a folder, `**` whole parts, brackets literal."""
    return re.fullmatch(_expression(pattern.split("/")), path, re.DOTALL) is not None


def _expression(parts: list[str]) -> str:
    said = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            said += "(?:.+)" if is_last else "(?:[^/]+/)*"
        else:
            words = re.split(r"([*?])", part)
            said += "".join({"*": "[^/]*", "?": "[^/]"}.get(word) or re.escape(word) for word in words)
            said += "" if is_last else "/"
    return said


def may_change(spec: Spec, path: str) -> bool:
    """Whether a step may change a file."""
    if path in spec["allowed_files"]:
        return True
    excluded = any(matches(each, path) for each in spec.get("excluded_patterns") or ())
    return not excluded and any(matches(each, path) for each in spec.get("allowed_patterns") or ())


class Agent:
    """One run at one step. `known` is what `tests.real.play` wrote of the fix."""

    def __init__(self, known: dict[str, Any], runs: Path) -> None:
        self.known, self.runs = known, runs
        self.before = [json.loads(path.read_bytes()) for path in sorted(runs.iterdir())]

    def work(self, spec: Spec) -> dict[str, Any]:
        """Do the step, and return the report of it."""
        does = self._patch if spec["mode"] == "patch" else self._read
        report, did = does(spec)
        if self.known["naive"]:
            self._make_a_mess()
        changes = did == "fixed" or did.startswith(("wrong", "removed"))
        report["tokens_used"] = self.known["tokens"] if changes else self.known["tokens"] // 3  # of reading alone
        about = {name: spec.get(name) for name in ("plan_id", "step_id", "attempt", "mode")}
        about |= {"did": did, "tokens": report["tokens_used"]}
        (self.runs / f"{len(self.before):04}.json").write_text(json.dumps(about))
        return report

    def _make_a_mess(self) -> None:
        """Do what nobody asked for: edit files of all kinds, commit, print a lot, and leave a process behind."""
        for path in (*self.known["files"], *self.known["tests"]):
            place = Path(path)
            if place.is_file() and not self._is_done(path):
                place.write_bytes(place.read_bytes() + b"\n# I looked at this\n")
        for name in ("notes.md", "scratch/try.py", "debug.log", "build/out.o"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text("assert False, 'left by an agent'\n")
        git = ["git", "-c", "user.name=agent", "-c", "user.email=agent@example.test"]
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "wip"], check=True)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        sys.stdout.write("thinking, and thinking again\n" * (PRINTED // 29))

    def _read(self, spec: Spec) -> tuple[dict[str, Any], str]:
        if self.known["kind"] != FIX:
            return {"output": {"files": [], "summary": "I found nothing."}}, "answered nothing"
        places = [
            {"path": path, "lines": lines, "why": self.known["why"]} for path, lines in self.known["places"].items()
        ]
        schema = (spec.get("input") or {}).get("schema") or {}
        if (
            "files" in schema.get("properties", {})
            and schema["properties"]["files"].get("items", {}).get("type") == "string"
        ):
            return {"output": {"files": list(self.known["places"]), "notes": self.known["why"]}}, "answered"
        return {"output": {"files": places, "summary": self.known["why"]}}, "answered"

    def _patch(self, spec: Spec) -> tuple[dict[str, Any], str]:
        kind = self.known["kind"]
        if kind == NOTHING:
            return {}, "did nothing"
        if kind == CLAIMS:
            return {"nothing_to_change": "these files are right as they are"}, "claimed that nothing is to be done"
        if kind == TESTS:
            return self._spoil_tests()
        left = [path for path in self.known["files"] if not self._is_done(path)]
        mine = [path for path in left if may_change(spec, path)]
        others = [path for path in left if path not in mine]
        wrong = [run for run in self.before if run["did"].startswith("wrong")]
        if mine and len(wrong) < self.known["wrong"]:
            return self._err(mine[0], breaks=len(wrong) % 2 == 1)
        if others and self._asks(spec):
            return {"needs": {"files": others, "reason": f"{self.known['why']}: this is part of it"}}, "asked for files"
        for path in mine:
            self._fix(path)
        if mine:
            return {"patch_cycles": 1}, "fixed"
        return {
            "nothing_to_change": f"what is wrong is not in these files: {self.known['why']}"
        }, "nothing to change here"

    def _asks(self, spec: Spec) -> bool:
        """Whether the step is one that other files may be asked for: one of those with patterns, and not forever."""
        asked = [run for run in self.before if run["did"] == "asked for files" and run["step_id"] == spec["step_id"]]
        return (spec.get("limits") or {}).get("max_files") is not None and len(asked) < self.known["asks"]

    def _is_done(self, path: str) -> bool:
        if path not in self.known["files"]:
            return False
        content = self._content(path)
        place = Path(path)
        return place.read_bytes() == content if place.is_file() else content is None

    def _content(self, path: str) -> bytes | None:
        content = self.known["files"][path]["content"]
        return None if content is None else base64.b64decode(content)

    def _fix(self, path: str) -> None:
        content, place = self._content(path), Path(path)
        if content is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(self.known["files"][path]["mode"])

    def _err(self, path: str, *, breaks: bool) -> tuple[dict[str, Any], str]:
        """Change a file without mending anything, or so that it cannot even be loaded."""
        place = Path(path)
        table, other = (BREAKING, OTHER_BREAKING) if breaks else (COMMENTS, OTHER_COMMENT)
        place.parent.mkdir(parents=True, exist_ok=True)
        before = place.read_bytes() if place.is_file() else b""
        place.write_bytes(before + b"\n" + table.get(place.suffix, other).encode())
        return {"patch_cycles": 1}, "wrong: " + ("broke the file" if breaks else "mended nothing")

    def _spoil_tests(self) -> tuple[dict[str, Any], str]:
        for path in self.known["tests"]:
            Path(path).unlink(missing_ok=True)
        return {"patch_cycles": 1}, "removed the failing tests"


def main(words: Iterable[str]) -> None:
    """Run the agent once."""
    knowledge, runs = map(Path, words)
    report = Agent(json.loads(knowledge.read_bytes()), runs).work(json.load(sys.stdin))
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
