"""Runs `cargo test`, and writes what it prints as a JUnit report of cargo-nextest's shape.

`python cargo_report.py REPORT` imports nothing but the standard library: a machine with cargo need not have nextest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

COMMAND = ("cargo", "test", "--no-fail-fast")
BINARY = re.compile(r"^\s*Running (?:unittests )?\S+ \(\S*/([\w-]+)-[0-9a-f]+\)")
TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
PRINTED = re.compile(r"^---- (\S+) stdout ----$")
COMPILED = re.compile(r"^error(?:\[E\d+\])?: (?!test failed|\d+ targets? failed)", re.MULTILINE)


@dataclass(slots=True)
class Binary:
    """The tests of one binary: each with how it ended, and what those that failed printed."""

    name: str
    ended: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)


def binaries(text: str) -> Iterator[Binary]:
    """Read what cargo printed, binary by binary; doc tests are left out."""
    binary: Binary | None = None
    test = ""
    for line in text.splitlines():
        if found := BINARY.match(line):
            binary, test = Binary(found[1]), ""
            yield binary
        elif line.lstrip().startswith("Doc-tests"):
            binary = None
        elif binary is None:
            continue
        elif found := TEST.match(line):
            binary.ended[found[1]] = found[2]
        elif found := PRINTED.match(line):
            test = found[1]
        elif line == "failures:" or line.startswith("test result:"):
            test = ""
        elif test:
            binary.printed[test] = f"{binary.printed.get(test, '')}{line}\n"


def report(text: str) -> ElementTree.ElementTree:
    """Lay out the tests that ran; where nothing could be compiled, that is the one failure."""
    root = ElementTree.Element("testsuites", name="cargo-test")
    for binary in list(binaries(text)):
        suite = ElementTree.SubElement(root, "testsuite", name=binary.name)
        for name, end in binary.ended.items():
            case = ElementTree.SubElement(suite, "testcase", name=name, classname=binary.name)
            if end == "ignored":
                ElementTree.SubElement(case, "skipped")
            if end == "FAILED":
                said = binary.printed.get(name, "").strip()
                lines = [line for line in said.splitlines() if line]
                failure = ElementTree.SubElement(case, "failure", message=lines[0] if lines else "failed")
                failure.text = said
    if not root.findall(".//testcase") and (found := COMPILED.search(text)):
        suite = ElementTree.SubElement(root, "testsuite", name="cargo")
        case = ElementTree.SubElement(suite, "testcase", name="build", classname="cargo")
        ElementTree.SubElement(case, "error", message="could not compile").text = text[found.start() :][:20_000]
    return ElementTree.ElementTree(root)


def main(path: str) -> int:
    """Run the tests and write the report; returns cargo's exit code."""
    done = subprocess.run(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.stdout.write(done.stdout)
    report(done.stdout).write(path, encoding="utf-8", xml_declaration=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
