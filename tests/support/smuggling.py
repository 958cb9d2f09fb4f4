"""What might be smuggled into a command of the catalogue, as lines and as single words of an argv."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.toolchain.contract import Contract

# what tools read as more than a name: a file of arguments, an option, a toolchain, a variable, a package of elsewhere
_MORE = (
    *("@args.txt", "@conf/args.py", "@conf/args.py::x", "@/etc/passwd", "@./a.py", "@", "+nightly", "+x.py", "+"),
    *("-", "-x.py", "-p", "-cevil.ini", "--rootdir=.", "--config-file=a.ini", "-oaddopts=-h", "-rargs.txt"),
    *("--import-mode=append", "--rulesdir=a", "--require=./a.js", "-toolexec=a", "-exec=a", "-overlay=a.json"),
    *("SHELL=a", "=a", "%a", "a\ufe0f.py", "a\u034f.py", "a\u3164.py", "a\u00ad.py", "a\u202epy", "a\U000e0100.py"),
    *("a.py::t[\u202e]", "a.py::t[\u200b]", "a.py::@x", "a.py::t[x", "./a.py::-x", "./../a.py", ".//../a.py"),
)  # fmt: skip

AFTER = (
    *("; rm -rf /", ";ls", " && x", " || x", " & x", " | sh", " |& sh", " > /etc/passwd", " >> x", " < x", " <(x)"),
    *(" $(x)", " ${x}", " $x", " `x`", ' "$(x)"', " '`x`'", "\nid", "\rid", "\x00", " \x00 x", "\x1b[1m", "\\\nid"),
    *(" -c evil", " -p evil", " -exec x", " -o x=y", " -ox=y", " --rootdir=/", " --rootdir /", " -C /"),
    *(" --config=/x", " --config-file=/x", " --plugin=x", " --eval=x", " --evil", " -evil", " -evil.py", " -/x", " -"),
    *(" -- -c x", " /etc/passwd", " /", " ~/x", " ~", " C:/x", " ../x", " x/../../y", " ..", " x/..",),
    *(" @args.txt", " @conf/args.py::x", " +nightly", " SHELL=x", " -- @x", " -- +x", " -- --", " --"),
    *(" a\\ b", " ..\\x", " a*", " a?", " {a,b};", " %2e%2e/x", " \u2025/x", " \uff0e\uff0e/x", " \uff0fetc", " 'x"),
)  # fmt: skip
BEFORE = (
    *("; rm -rf / ;", "x && ", "x | ", "$(x) ", "`x` ", "sh -c ", "bash ", "sudo ", "env X=y ", "X=y ", "-c evil "),
    *("exec ", "eval ", "xargs ", "python -c ", "python ", "/bin/", "./", "../", "\n", "\x00", "#", "! ", "\\"),
)
SMUGGLED_WORDS = (
    *("; rm -rf /", "a;b", "&& x", "a&b", "| sh", "$(x)", "${x}", "`x`", "a\nb", "a\x00b", "\x00", "", "a\tb"),
    *("--rootdir=/", "-c", "-o", "-evil.py", "-/x", "/etc/passwd", "~/x", "../x", "x/../y", "..", "a\\b", "*", "a?b"),
    *("--config=x", "-exec", "%x", "=x", "\u2025/x", "\uff0fetc", "a<b", "a>b"), *_MORE,
)  # fmt: skip


def smuggled_lines(contract: Contract) -> Iterator[str]:
    """Yield the contract's example with each variant put in, but options that it lists with a typed value."""
    listed = dict(contract.valued)
    for after in (*AFTER, *(() if contract.end_of_options else (" -- evil",))):
        if (after.split() or [""])[0] not in listed:
            yield contract.example + after
    for before in BEFORE:
        yield before + contract.example
    for option in listed:
        for value in SMUGGLED_WORDS:
            yield f'{contract.example} {option} "{value}"'
