"""Unified diffs: which are well-formed, and what is said of those that are not."""

from __future__ import annotations

import pytest

from tasks.strategies.reviewed_plan.integrity import diff_fault

HEAD = "--- a/src/a.py\n+++ b/src/a.py\n"
GOOD = [
    HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
    HEAD + "@@ -1 +1 @@\n-b\n+c",
    HEAD + "@@ -1,2 +1,2 @@ def a():\n a\n-b\n+c\n@@ -9,1 +9,2 @@\n d\n+e\n",
    HEAD + "@@ -1,3 +1,2 @@\n a\n\n-b\n",  # an empty line that lost its blank
    HEAD + "@@ -1 +1 @@\n-b\n+c\n\\ No newline at end of file\n",
    HEAD.replace("a/", "").replace("b/", "") + "@@ -1 +1 @@\n-b\n+c\n",
    "diff --git a/src/a.py b/src/a.py\nindex 1a2b3c4..5d6e7f8 100644\n" + HEAD + "@@ -1 +1 @@\n-b\n+c\n",
    "--- /dev/null\n+++ b/src/a.py\n@@ -0,0 +1,2 @@\n+a\n+b\n",
    "--- a/src/a.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
    "--- a/src/a.py\t2026-01-01\n+++ b/src/a.py\t2026-01-02\n@@ -1 +1 @@\n-b\n+c\n",
    HEAD + "@@ -900,1 +950,1 @@\n-b\n+c\n",  # where a hunk lies is not judged
    HEAD + "@@ -1,2 +1,1 @@\n a\n--- b\n",  # a removed line that looks like a header
]
BAD = [
    ("", "it does not begin with"),
    ("Here is the diff:\n" + GOOD[0], "it does not begin with"),
    ("--- a/src/a.py\n@@ -1 +1 @@\n-b\n+c\n", "there is no `+++ ` header"),
    ("--- a/src/a.py", "there is no `+++ ` header"),
    (HEAD, "its headers are not followed by a hunk"),
    (HEAD + "a\n@@ -1 +1 @@\n-b\n+c\n", "its headers are not followed by a hunk"),
    (HEAD + "@@ -1,2 +1,2 @@\n-b\n+c\n", "hunk 1 claims 2 old and 2 new lines and has 1 and 1"),
    (HEAD + "@@ -1 +1 @@\n-b\n+c\n@@ -5,1 +5,1 @@\n d\n+e\n", "hunk 2 claims 1 old and 1 new lines and has 1 and 2"),
    (HEAD + "@@ ... @@\n-b\n+c\n", "hunk 1 does not begin with"),
    (HEAD + "@@ -1 +1 @@\n-b\n+c\n*d\n", "hunk 1 has a line that begins with neither"),
    (HEAD + "@@ -1 +1 @@\n a\n", "hunk 1 changes nothing"),
    (GOOD[0].replace("src/a.py", "src/b.py"), "its headers name 'src/b.py' and not 'src/a.py'"),
    (GOOD[0].replace("b/src/a.py", "b/../x"), "its headers name '../x' and not 'src/a.py'"),
    ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n", "both of its headers are /dev/null"),
    (GOOD[0] + "diff --git a/src/b.py b/src/b.py\n", "hunk 1 has a line"),
    (GOOD[0] + GOOD[0].replace("src/a.py", "src/b.py"), "hunk 1"),
]


@pytest.mark.parametrize("diff", GOOD)
def test_a_well_formed_diff_of_its_file_is_taken(diff: str) -> None:
    assert diff_fault(diff, "src/a.py") is None


@pytest.mark.parametrize(("diff", "why"), BAD)
def test_a_diff_that_is_not_well_formed_is_told_why(diff: str, why: str) -> None:
    assert (diff_fault(diff, "src/a.py") or "").startswith(why)
