"""`planner submit` of what CI wrote: SARIF logs, test reports, roadmaps and inboxes become a gap report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import worker.sources.git
from schemas import codec
from schemas.goal import MAX_GOAL_BYTES, Goal
from schemas.kinds.gap_report import Gap, InboxItem
from tasks.rules.strategy import Draft, Setting
from tasks.strategies import gap_report
from tasks.strategies.gap_report.analysis import RoadmapItem
from tasks.toolchain.catalogue import CATALOGUE
from worker.cli.commands import submit
from worker.cli.commands.app import app
from worker.sources import goal as goal_source
from worker.sources import inbox, roadmap, sarif
from worker.sources.sarif import SarifFinding, UnreadableLog
from worker.store.publishing import Sent

ROOT = Path("/w/shop")


def a_result(uri: str = "src/a.py", **more: Any) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": 3, "startColumn": 5}}
    return {"ruleId": "F401", "message": {"text": "unused"}, "locations": [{"physicalLocation": place}], **more}


def a_log(*results: dict[str, Any], name: str = "ruff", **run: Any) -> bytes:
    tool = {"driver": {"name": name, **run.pop("driver", {})}}
    return codec.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": list(results), **run}]})


def found(*results: dict[str, Any], **run: Any) -> list[SarifFinding]:
    return list(sarif.read(a_log(*results, **run), ROOT))


def test_the_log_of_the_real_ruff_is_read(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a b.py").write_text("import os\n")
    (tmp_path / "c.py").write_text("def f(:\n")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format", "sarif", "."]
    log = subprocess.run(ruff, cwd=tmp_path, capture_output=True, check=False, timeout=60).stdout

    read = {(each.tool, each.path, each.line, each.column, each.rule) for each in sarif.read(log, tmp_path)}

    assert ("ruff", "src/a b.py", 1, 8, "F401") in read
    assert {path for _, path, *_ in read} == {"src/a b.py", "c.py"}


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("src/a%20b.py", "src/a b.py"),
        ("file:///w/shop/src/a.py", "src/a.py"),
        ("/w/shop/src/a.py", "src/a.py"),
        ("file:///elsewhere/a.py", "/elsewhere/a.py"),
        ("file:///w/shopping/a.py", "/w/shopping/a.py"),
        ("http://[x/a.py", "http://[x/a.py"),
        ("file://[id]/page.ts", "[id]/page.ts"),
    ],
)
def test_files_are_named_relative_to_the_folder(uri: str, path: str) -> None:
    assert found(a_result(uri))[0].path == path


@pytest.mark.parametrize(
    ("base", "path"),
    [({"uri": "file:///w/shop/"}, "src/a.py"), ({"uri": "file:///w/shop/lib"}, "lib/src/a.py"), ({}, "src/a.py")],
)
def test_a_file_may_be_relative_to_a_base(base: dict[str, str], path: str) -> None:
    place = {"artifactLocation": {"uri": "src/a.py", "uriBaseId": "%SRCROOT%"}}
    result = a_result(locations=[{"physicalLocation": place}])

    assert found(result, originalUriBaseIds={"%SRCROOT%": base})[0].path == path


def test_a_file_may_be_named_by_its_place_among_the_artifacts() -> None:
    result = a_result(locations=[{"physicalLocation": {"artifactLocation": {"index": 1}}}])
    artifacts = [{"location": {"uri": "src/x.py"}}, {"location": {"uri": "src/a.py"}}]

    assert found(result, artifacts=artifacts)[0].path == "src/a.py"


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, True),
        ({"level": "error"}, True),
        ({"level": "warning"}, True),
        ({"level": "note"}, False),
        ({"level": "none"}, False),
        ({"kind": "pass"}, False),
        ({"kind": "notApplicable"}, False),
        ({"baselineState": "absent"}, False),
        ({"baselineState": "unchanged"}, True),
        ({"suppressions": []}, True),
        ({"suppressions": [{"kind": "inSource"}]}, False),
        ({"suppressions": [{"kind": "external", "status": "rejected"}]}, True),
        ({"locations": []}, True),
    ],
)
def test_only_what_fails_and_nobody_accepted_counts(more: dict[str, Any], *, counts: bool) -> None:
    assert bool(found(a_result(**more))) is counts


def test_a_rule_says_its_level_and_its_words() -> None:
    rules = [
        {"id": "js/quiet", "defaultConfiguration": {"level": "note"}},
        {"id": "js/loud", "messageStrings": {"default": {"text": "Do not use {0}."}}},
    ]
    message = {"id": "default", "arguments": ["eval"]}
    results = a_result(ruleId="js/quiet"), a_result(ruleId=None, ruleIndex=1, message=message)
    quiet = a_result(ruleId=None, ruleIndex=0), a_result(ruleId=None, rule={"index": 0})

    assert [(each.rule, each.text) for each in found(*results, *quiet, name="CodeQL", driver={"rules": rules})] == [
        ("js/loud", "Do not use eval.")
    ]


@pytest.mark.parametrize(
    ("reference", "rules"),
    [
        ({"rule": {"index": 0, "toolComponent": {"index": 1}}}, ["loud"]),
        ({"ruleIndex": 0, "rule": {"toolComponent": {"index": 1}}}, ["loud"]),
        ({"rule": {"index": 1, "toolComponent": {"index": 1}}}, []),
        ({"rule": {"id": "quiet", "index": 1, "toolComponent": {"index": 1}}}, []),
        ({"rule": {"index": 0, "toolComponent": {"index": 0}}}, []),
        ({"rule": {"id": "quiet"}}, []),
        ({"rule": {"index": 0}}, ["own"]),
        ({"rule": {"index": 0, "toolComponent": {"index": 7}}}, ["own"]),
    ],
)
def test_a_rule_may_be_one_of_an_extension(reference: dict[str, Any], rules: list[str]) -> None:
    quiet = {"id": "quiet", "defaultConfiguration": {"level": "note"}}
    extensions = [{"name": "pack", "rules": [quiet]}, {"name": "more", "rules": [{"id": "loud"}, quiet]}]
    tool = {"driver": {"name": "CodeQL", "rules": [{"id": "own"}]}, "extensions": extensions}
    result = {"message": {"text": "x"}, **reference}
    log = codec.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": [result]}]})

    assert [each.rule for each in sarif.read(log, ROOT)] == rules


def test_of_two_rules_of_one_name_the_place_among_them_counts() -> None:
    rules = [{"id": "x"}, {"id": "x", "defaultConfiguration": {"level": "note"}}]

    assert found(a_result(ruleId="x", ruleIndex=1), driver={"rules": rules}) == []
    assert len(found(a_result(ruleId="x/part", ruleIndex=0), driver={"rules": rules})) == 1
    assert len(found(a_result(ruleId="y", ruleIndex=1), driver={"rules": rules})) == 1


@pytest.mark.parametrize(
    "log",
    [
        *(b"", b"not json", b"[]", b"{}", b'{"version": "2.1.0"}', b'{"version": "1.0.0", "runs": []}'),
        *(b'{"version": "2.1.0", "runs": [{}]}', b'{"version": "2.1.0", "runs": [{"tool": {"driver": {}}}]}'),
        b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": 3}]}',
    ],
)
def test_what_is_no_sarif_log_is_told_in_a_sentence(log: bytes) -> None:
    with pytest.raises(UnreadableLog) as error:
        sarif.read(log, ROOT)

    assert str(error.value).endswith(".")


def test_a_log_may_be_empty_or_begin_with_a_mark() -> None:
    assert sarif.read(b'\xef\xbb\xbf{"version": "2.1.0", "runs": []}', ROOT) == ()
    assert sarif.read(b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}}]}', ROOT) == ()


def test_a_log_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MAX_LOG_BYTES", 10)

    with pytest.raises(UnreadableLog, match="limit is 10"):
        sarif.read(a_log(), ROOT)


ROADMAP = """# Roadmap

## v0.1 Basics

- [x] Create src/a.py
- [ ] Create src/b.py,
      with its tests
* [ ] v0.2: Implement src/c.py
- no item

### Later parts

1. [ ] **0.10** - All code passes ruff

```
- [ ] 0.1 an example
```

## Ideas

- [ ] Create something
- [X] 1.0 Done
"""


def test_a_roadmap_is_read_with_its_versions() -> None:
    assert roadmap.read(ROADMAP) == (
        RoadmapItem("0.1", "Create src/a.py", completed=True),
        RoadmapItem("0.1", "Create src/b.py, with its tests"),
        RoadmapItem("0.2", "Implement src/c.py"),
        RoadmapItem("0.10", "All code passes ruff"),
        RoadmapItem("unknown", "Create something"),
        RoadmapItem("1.0", "Done", completed=True),
    )


@pytest.mark.parametrize(
    ("heading", "version"),
    [
        ("## 0.3", "0.3"),
        ("## v0.3.1: Fast", "0.3.1"),
        ("## Version 1.0 (next)", "1.0"),
        ("## The year 2026", "unknown"),
        ("## Basics", "unknown"),
        ("## 2.5 times faster", "unknown"),
    ],
)
def test_a_heading_gives_its_version(heading: str, version: str) -> None:
    assert roadmap.read(f"{heading}\n\n- [ ] Do it\n") == (RoadmapItem(version, "Do it"),)


@pytest.mark.parametrize(
    ("item", "version"),
    [
        ("2.5 times faster parsing", "unknown"),
        ("1.5 GB less memory", "unknown"),
        ("99.9% of requests", "unknown"),
        ("0.2 implement it", "0.2"),
        ("0.3 Days in the calendar", "0.3"),
        ("v2.5: 3 times faster", "2.5"),
    ],
)
def test_an_amount_is_no_version(item: str, version: str) -> None:
    (read,) = roadmap.read(f"- [ ] {item}\n")

    assert read.version == version


@pytest.mark.parametrize(
    "item",
    ["~~Sell by phone~~", "0.1 ~~Sell by phone~~", "~~0.1 Sell\n  by phone~~ (too dear)", "<del>Sell</del> - no"],
)
def test_an_item_that_is_struck_through_is_not_to_do(item: str) -> None:
    struck, kept = roadmap.read(f"- [ ] {item}\n- [ ] Discounts\n")

    assert struck.completed
    assert kept == RoadmapItem("unknown", "Discounts")


def test_what_is_struck_through_in_an_item_is_left_out() -> None:
    assert roadmap.read("- [ ] 0.1 ~~Sell by phone~~ Sell ~~only~~ online\n") == (RoadmapItem("0.1", "Sell online"),)


@pytest.mark.parametrize("text", ["", "# Roadmap\n\n- Create it\n", "```\n- [ ] 0.1 x\n```\n"])
def test_a_roadmap_without_items_is_told(text: str) -> None:
    with pytest.raises(roadmap.EmptyRoadmap):
        roadmap.read(text)


WISH = InboxItem.model_validate(
    {
        "filename": "export-it.md",
        "title": "Export",
        "what": "Write CSV.\n\nAnd JSON.",
        "why": "Asked for: twice",
        "priority": "high",
        "constraints": ["no new dependency", "keep it small"],
    }
)
FRONT = """---
title: "Export"
priority: High
author: me
why: 'Asked for: twice'
constraints:
  - no new dependency
  - keep it small
---
Write CSV.

And JSON.
"""
HEADINGS = """# Export

## What
Write CSV.

And JSON.

## Why:
Asked for: twice

## Priority
high

## Constraints
- no new dependency
* keep it small
"""


@pytest.mark.parametrize(
    "text",
    [
        FRONT,
        HEADINGS,
        HEADINGS.replace("\n", "\r\n"),
        FRONT.replace("constraints:\n  - no new dependency\n  -", "constraints: [no new dependency,").replace(
            "keep it small\n", "keep it small]\n"
        ),
    ],
)
def test_a_wish_has_front_matter_or_headings(text: str) -> None:
    assert inbox.parse("export-it.md", text) == WISH


@pytest.mark.parametrize(
    ("text", "title", "what"),
    [
        ("Write CSV.", "export it", "Write CSV."),
        ("# Export\nWrite CSV.", "Export", "Write CSV."),
        ("# Export\n\n## Details\nWrite CSV.", "Export", "Details\nWrite CSV."),
        ("", "export it", ""),
        ("```bash\n# install\n## why\nmake\n```\n# Export\nIt", "Export", "```bash\n# install\n## why\nmake\n```\nIt"),
        ("~~~\n```\n# a\n~~~\n# Export\nIt", "Export", "~~~\n```\n# a\n~~~\nIt"),
        ("---\nno: end\n", "export it", "---\nno: end"),
        ("---\ntitle: [draft\n---\nWrite it", "[draft", "Write it"),
        ("---\ntitle: |\n  Export\n---\nWrite it", "Export", "Write it"),
    ],
)
def test_a_wish_may_be_short(text: str, title: str, what: str) -> None:
    item = inbox.parse("export-it.md", text)

    assert (item.title, item.what, item.priority) == (title, what, "medium")


def test_an_inbox_is_read_in_order_without_readme_and_hidden_files(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "README.md", ".draft.md", "notes.txt"):
        (tmp_path / name).write_text("x")

    assert [item.filename for item in inbox.read(tmp_path)] == ["a.md", "b.md"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"---\npriority: soon\n---\n", "a.md: priority: Input should be"),
        (b"\xff", "a.md is not UTF-8."),
        (b"x" * 100_000, "the limit is 65536"),
    ],
)
def test_a_wish_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "a.md").write_bytes(content)

    with pytest.raises(inbox.UnreadableInbox, match=told):
        inbox.read(tmp_path)


def test_every_file_is_told_before_any_is_told_twice() -> None:
    findings = [SarifFinding("ruff", f"src/m{number % 40}.py", number, 1, "F401", "x" * 400) for number in range(400)]

    (gap,) = goal_source.gaps_of(goal_source.GapSources(tuple(findings)))

    assert len(gap.evidence) <= goal_source.MAX_EVIDENCE
    assert [line.split(":")[0] for line in gap.evidence.splitlines()][:20] == [f"src/m{n}.py" for n in range(20)]


def test_gaps_of_all_sources_are_in_order_and_wishes_replace_items() -> None:
    findings = [SarifFinding("ruff", "src/a.py", 1, 1, "F401", "x"), SarifFinding("mypy", "src/b.py", 1, 1, "", "y")]
    items = [
        RoadmapItem("0.1", "Create src/b.py"),
        RoadmapItem("0.10", "Export: write csv"),
        RoadmapItem("0.1", "Done", True),
    ]
    wishes = [InboxItem(filename="a.md", title="Export", what="Write CSV")]

    made = goal_source.gaps_of(goal_source.GapSources(tuple(findings), None, tuple(items), tuple(wishes)))

    assert [(gap.category, gap.description, gap.priority, gap.roadmap_version) for gap in made] == [
        ("quality", "Quality check failed: ruff", "urgent", "0.1"),
        ("quality", "Quality check failed: mypy", "urgent", "0.1"),
        ("roadmap", "Create src/b.py", "urgent", "0.1"),
        ("inbox", "Export: Write CSV", "medium", "inbox"),
    ]


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run the command without a server; what it publishes is kept in `sent.json`."""

    @contextmanager
    def open_planner() -> Iterator[Any]:
        yield SimpleNamespace(publish=publish, settings=SimpleNamespace(max_goal_bytes=MAX_GOAL_BYTES))

    def publish(data: bytes, goal_id: str | None, tenant: str | None, *__: str, once: bool) -> Sent:
        (tmp_path / "sent.json").write_bytes(data)
        return Sent("1-1", goal_id or "1-1", tenant or "default")

    monkeypatch.setattr(submit, "open_planner", open_planner)
    monkeypatch.chdir(tmp_path)
    return lambda *words, stdin=None: CliRunner().invoke(app, ["submit", *map(str, words)], input=stdin)


JUNIT = (
    '<testsuites><testsuite name="pytest"><testcase classname="tests.test_b" name="test_it">'
    '<failure message="AssertionError: 1">src/b.py:3: AssertionError</failure></testcase></testsuite></testsuites>'
)


def sent(folder: Path) -> Goal:
    return Goal.model_validate_json((folder / "sent.json").read_bytes())


def most_critical(goal: Goal) -> Gap:
    assert goal.kind == "gap_report"
    assert goal.gap_report is not None
    assert goal.gap_report.gap_report is not None
    assert goal.gap_report.gap_report.most_critical is not None
    return goal.gap_report.gap_report.most_critical


def test_all_sources_make_one_goal_that_can_be_planned(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "ruff.sarif").write_bytes(a_log(a_result(f"file://{tmp_path}/src/a.py")))
    (tmp_path / "report.xml").write_text(JUNIT)
    (tmp_path / "ROADMAP.md").write_text(ROADMAP)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox/export.md").write_text(HEADINGS)

    result = planner(
        *("--from-sarif", "ruff.sarif", "--from-junit", "report.xml", "--roadmap", "ROADMAP.md", "--inbox", "inbox"),
        *("--file", "src/a.py", "--file", "src/b.py", "--repo", "acme/shop", "--json"),
    )

    assert result.exit_code == 0, result.output
    goal = sent(tmp_path)
    assert most_critical(goal).description == "Quality check failed: pytest"
    assert goal.context.failing_tests == ("tests/test_b.py::test_it",)
    assert goal.gap_report is not None
    assert goal.gap_report.gap_report is not None
    assert goal.gap_report.gap_report.gaps[1].evidence == "src/a.py:3:5: F401 unused"
    assert goal.gap_report.inbox[0].constraints == ("no new dependency", "keep it small")
    made = gap_report.draft(goal, CATALOGUE, Setting())
    assert isinstance(made, Draft)
    assert made.steps[0].allowed_files == ("src/b.py", "src/a.py")


def test_the_help_shows_what_a_roadmap_looks_like(planner: Callable[..., Result]) -> None:
    shown = " ".join(planner("--help").stdout.split())

    assert '"- [ ] 0.1 Create the parser" ("[x]" is done)' in shown


def test_a_test_report_alone_asks_for_a_repair(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(JUNIT)

    assert planner("--from-junit", "report.xml", "--file", "src/b.py").exit_code == 0

    goal = sent(tmp_path)
    assert (goal.kind, goal.gap_report, goal.goal) == ("task", None, "Fix failing test tests/test_b.py::test_it")


@pytest.mark.parametrize(
    ("words", "body"),
    [(["--kind", "gap_report"], None), (["-"], {"kind": "gap_report", "allowed_files": ["src/b.py"]})],
)
def test_a_test_report_of_that_kind_is_a_quality_gap(
    planner: Callable[..., Result], tmp_path: Path, words: list[str], body: dict[str, Any] | None
) -> None:
    (tmp_path / "report.xml").write_text(JUNIT)

    result = planner("--from-junit", "report.xml", "-f", "src/b.py", *words, stdin=codec.dumps(body) if body else None)

    assert result.exit_code == 0, result.output
    goal = sent(tmp_path)
    assert most_critical(goal).description == "Quality check failed: pytest"
    assert most_critical(goal).evidence.splitlines()[0] == "FAILED tests/test_b.py::test_it - AssertionError: 1"
    made = gap_report.draft(goal, CATALOGUE, Setting())
    assert isinstance(made, Draft)
    assert (made.document or {})["actions"][0]["target_files"] == ["tests/test_b.py", "src/b.py"]


def test_what_the_file_says_of_history_and_protection_stays(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.sarif").write_bytes(a_log(a_result()))
    body = {"goal": "Close it", "gap_report": {"protected_paths": ["infra/"], "recent_records": []}}

    assert planner("-", "--from-sarif", "a.sarif", stdin=codec.dumps(body)).exit_code == 0

    goal = sent(tmp_path)
    assert goal.goal == "Close it"
    assert goal.gap_report is not None
    assert goal.gap_report.protected_paths == ("infra/",)
    assert most_critical(goal).category == "quality"


def test_the_same_output_twice_is_the_same_goal(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.sarif").write_bytes(a_log(a_result()))
    bodies = set()
    for _ in range(2):
        assert planner("--from-sarif", "a.sarif").exit_code == 0
        bodies.add((tmp_path / "sent.json").read_bytes())

    assert len(bodies) == 1


def test_logs_of_several_tools_are_several_gaps(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.sarif").write_bytes(a_log(a_result()))
    (tmp_path / "b.sarif").write_bytes(a_log(a_result("src/a.js"), name="ESLint"))

    assert planner("--from-sarif", "a.sarif", "--from-sarif", "b.sarif").exit_code == 0

    goal = sent(tmp_path)
    assert goal.gap_report is not None
    assert goal.gap_report.gap_report is not None
    assert [gap.description for gap in goal.gap_report.gap_report.gaps] == [
        "Quality check failed: ruff",
        "Quality check failed: ESLint",
    ]


def test_without_gaps_nothing_is_sent(planner: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.sarif").write_bytes(a_log())
    (tmp_path / "ROADMAP.md").write_text("- [x] 0.1 Done\n")

    result = planner("--from-sarif", "a.sarif", "--roadmap", "ROADMAP.md", "--json")

    assert result.exit_code == 0
    assert (codec.loads(result.stdout)["verdict"], codec.loads(result.stdout)["reason"]) == ("NOTHING_TO_DO", "no_gap")
    assert not (tmp_path / "sent.json").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository with a module, a wish and a log."""
    files = {
        "src/a.py": "", "src/b.py": "", "modules/x/SPEC.md": "Reads.", "modules/x/core.py": "", "\u00fc.py": "",
        "old.log": "", ".gitignore": "*.log\n", "x\u202e.py": "",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "src/a.py"], cwd=tmp_path, check=True)
    (tmp_path / "a.sarif").write_bytes(a_log(a_result()))
    return tmp_path


LISTED = (".gitignore", "a.sarif", "modules/x/SPEC.md", "modules/x/core.py", "src/a.py", "src/b.py", "\u00fc.py")


def test_what_git_knows_of_the_folder_goes_along_so_that_globs_find_it(
    planner: Callable[..., Result], checkout: Path
) -> None:
    assert planner("--from-sarif", "a.sarif", "-f", "src/*.py").exit_code == 0

    goal = sent(checkout)
    assert sorted(goal.context.files) == sorted(LISTED)
    assert goal.context.files[:2] == ("src/a.py", "src/b.py")
    assert goal.gap_report is not None
    assert goal.gap_report.project.documents == {"modules/x/SPEC.md": "Reads."}
    made = gap_report.draft(goal, CATALOGUE, Setting())
    assert isinstance(made, Draft)
    assert made.steps[0].allowed_files == ("src/a.py",)


def test_what_the_file_says_of_the_project_stays(planner: Callable[..., Result], checkout: Path) -> None:
    body = {"allowed_files": 3, "context": {"files": ["src/c.py"]}, "gap_report": {"project": {"files": ["src/d.py"]}}}

    assert planner("-", "--from-sarif", "a.sarif", "-f", "src/a.py", stdin=codec.dumps(body)).exit_code == 0

    goal = sent(checkout)
    assert goal.context.files == ("src/c.py",)
    assert goal.gap_report is not None
    assert (goal.gap_report.project.files, goal.gap_report.project.documents) == (("src/d.py",), {})


def test_of_too_many_files_those_that_may_change_go_along(
    planner: Callable[..., Result], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.sources.git, "MAX_LISTING", 20)

    assert planner("--from-sarif", "a.sarif", "-f", "src/*.py").exit_code == 0

    assert sent(checkout).context.files[:2] == ("src/a.py", "src/b.py")
    assert len("".join(sent(checkout).context.files)) <= 20


@pytest.mark.parametrize(
    ("given", "begins_there"),
    [
        (("-f", "src/a.py"), True),
        (("-f", "src/*.py", "-f", "src/new.py"), True),
        (("-f", "src/new.py"), False),  # nothing of it is here
        (("-f", "src/a.py", "-f", "lib/b.py"), False),
        ((), False),
        (("-f", "src/a.py", "--base-sha", "9f1c2d4"), False),
        (("-", "-f", "src/a.py"), True),
        (("-f", "src/a.py", "--no-fill"), False),
    ],
)
def test_a_goal_begins_at_the_commit_of_the_folder_that_has_its_files(
    planner: Callable[..., Result], checkout: Path, given: tuple[str, ...], begins_there: bool
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@a"]
    subprocess.run([*git, "commit", "-q", "-m", "a"], cwd=checkout, check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True).stdout

    assert planner("--goal", "Fix it", *given, stdin=b"{}").exit_code == 0

    assert (sent(checkout).context.base_sha == head.strip()) is begins_there
    assert sent(checkout).context.files == (("src/a.py",) if begins_there else ())


@pytest.mark.parametrize("variable", ["PATH", "GIT_DIR"])
def test_without_git_or_a_repository_nothing_goes_along(
    planner: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "a.sarif").write_bytes(a_log(a_result()))
    monkeypatch.setenv(variable, "")

    assert planner("--from-sarif", "a.sarif", "-f", "src/a.py").exit_code == 0

    assert sent(tmp_path).context.files == ()


@pytest.mark.parametrize("allowed", [3, "src/*.py", [1, {}], {"a": 1}])
def test_an_allowlist_that_is_none_is_refused_in_a_repository_too(
    planner: Callable[..., Result], checkout: Path, allowed: Any
) -> None:
    result = planner("-", "--from-sarif", "a.sarif", "--json", stdin=codec.dumps({"allowed_files": allowed}))

    assert (result.exit_code, codec.loads(result.stdout)["status"]) == (2, 422)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--from-sarif", "nowhere.sarif"], "unreadable_file", "nowhere.sarif: No such file or directory."),
        (["--from-sarif", "bad"], "invalid_sarif", "bad: This is no SARIF log: "),
        (
            ["--roadmap", "bad"],
            "invalid_roadmap",
            "bad: This roadmap has no items such as `- [ ] 0.1 Create the parser`.",
        ),
        (["--roadmap", "binary"], "invalid_roadmap", "binary is not UTF-8."),
        (["--inbox", "nowhere"], "invalid_inbox", "nowhere: No such file or directory."),
        (["--inbox", "bad"], "invalid_inbox", "bad: Not a directory."),
        (["--from-sarif", "good", "--from-junit", "bad"], "invalid_report", "The report is no XML"),
        (["--from-sarif", "good", "-"], "invalid_message", "`gap_report`"),
        (["--from-sarif", "good", "--kind", "task"], "wrong_kind", "--from-sarif, --roadmap and --inbox make a gap"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(
    planner: Callable[..., Result], tmp_path: Path, words: list[str], code: str, told: str
) -> None:
    (tmp_path / "bad").write_text("bad")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "good").write_bytes(a_log(a_result()))

    result = planner(*words, "--json", stdin='{"gap_report": 3}')

    assert result.exit_code == 2, result.output
    problem = codec.loads(result.stdout)
    assert problem["code"] == code
    assert problem["detail"].startswith(told)
