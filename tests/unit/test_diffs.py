"""What a diff says of each file, whatever its lines look like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.text.diffs import read_diff

DIFF = b"""diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
--- a comment of SQL
+diff --git a/no b/no
 three
\\ No newline at end of file
@@ -9 +9,2 @@ def f():
-x
+y
+z
diff --git "a/caf\\303\\251 \\"1\\".py" "b/caf\\303\\251 \\"1\\".py"
new file mode 100644
index 0..3
--- /dev/null
+++ "b/caf\\303\\251 \\"1\\".py"
@@ -0,0 +1 @@
+print()
diff --git a/old b/old
deleted file mode 100644
index 4..0
--- a/old
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/x.png b/x.png
new file mode 100644
GIT binary patch
literal 3
KcmZ?wbhEHb

"""


def test_each_file_of_a_diff_has_its_name_kind_and_lines() -> None:
    assert [each[:4] for each in read_diff(DIFF)] == [
        ("a.py", "changed", 3, 2),
        ('café "1".py', "created", 1, 0),
        ("old", "deleted", 0, 2),
        ("run.sh", "changed", 0, 0),
        ("x.png", "created", 0, 0),
    ]


def test_the_parts_of_a_diff_are_the_whole_diff() -> None:
    assert b"".join(DIFF[each.start : each.end] for each in read_diff(DIFF)) == DIFF


WORDS = [
    b"diff --git ",
    b"a/b b/b",
    b"\n",
    b"@@ -1,99999 +1 @@",
    b"+",
    b"-",
    b"\\",
    b'"a/\\3',
    b"\xff",
    b"new file mode 1",
]


@given(st.lists(st.sampled_from(WORDS)).map(b"".join))
def test_what_is_no_diff_is_no_error(text: bytes) -> None:
    assert all(each.added >= 0 and each.removed >= 0 for each in read_diff(text))
