"""Which files the sections of an objective name."""

from __future__ import annotations

import re
import time

import pytest

from tasks.strategies.campaign.parts import MAX_SECTIONS, sections_of

# Their names say nothing of what is in them, so that only their paths count.
PATHS = (
    *("src/main.py", "src/main", "index", "app/[id]/index.ts", "lib/c++/util.cc", "main.py", "pkg/mod.d.ts", ".init"),
    *("@v/lib.js", "main_index.py", "./app.py"),
)


@pytest.mark.parametrize(
    "text",
    [
        "Change src/main.py.",
        "(src/main.py): and index.am",
        "my-src/main.py, a/src/main.py, src/main.pyi, src/main/b, src/main-b",
        "`app/[id]/index.ts` xapp/[id]/index.ts",
        "xapp/[id]/index.ts, app/[id]/index.tsx",
        "in lib/c++/util.cc. Or lib/c++/util.cc/a",
        "pkg/mod.d.ts.bak x@src/main.py src/main.py+a",
        "a.init .init. ./.init ./app.py..",
        "say @v/lib.js, not b@v/lib.js",
        "b@v/lib.js, b/@v/lib.js, main.main_index.py",
        "\u00e9index, index\u00e9 ... ....",
        "",
    ],
)
def test_a_file_is_named_where_its_path_stands_by_itself(text: str) -> None:
    (part,) = sections_of(f"## Part\n{text}", PATHS)

    alone = r"(?<![\w./-]){}(?![\w/-])"
    assert part.files == tuple(path for path in PATHS if re.search(alone.format(re.escape(path)), text))


def test_many_files_and_a_long_text_are_read_in_no_time() -> None:
    files = [f"src/p{number}/[id]/m{number}.py" if number % 2 else f"src/m{number}.py" for number in range(10_000)]
    text = "\n".join(f"## Part {number}\n" + "See src/m4.py. " * 12_000 for number in range(MAX_SECTIONS))
    began = time.process_time()
    found = sections_of(text, files)

    assert time.process_time() - began < 5
    assert [part.files[0] for part in found] == ["src/m4.py"] * MAX_SECTIONS
