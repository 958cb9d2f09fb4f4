"""What might be smuggled into a command of the catalogue, as lines and as single words of an argv."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.planning.tool_contract import Contract

AFTER = (
    *("; rm -rf /", ";ls", " && x", " || x", " & x", " | sh", " |& sh", " > /etc/passwd", " >> x", " < x", " <(x)"),
    *(" $(x)", " ${x}", " $x", " `x`", ' "$(x)"', " '`x`'", "\nid", "\rid", "\x00", " \x00 x", "\x1b[1m", "\\\nid"),
    *(" -c evil", " -p evil", " -exec x", " -o x=y", " -ox=y", " --rootdir=/", " --rootdir /", " -C /"),
    *(" --config=/x", " --config-file=/x", " --plugin=x", " --eval=x", " --evil", " -evil", " -evil.py", " -/x", " -"),
    *(" -- evil", " -- -c x", " /etc/passwd", " /", " ~/x", " ~", " C:/x", " ../x", " x/../../y", " ..", " x/..",),
    *(" a\\ b", " ..\\x", " a*", " a?", " {a,b};", " %2e%2e/x", " \u2025/x", " \uff0e\uff0e/x", " \uff0fetc", " 'x"),
)  # fmt: skip
BEFORE = (
    *("; rm -rf / ;", "x && ", "x | ", "$(x) ", "`x` ", "sh -c ", "bash ", "sudo ", "env X=y ", "X=y ", "-c evil "),
    *("exec ", "eval ", "xargs ", "python -c ", "python ", "/bin/", "./", "../", "\n", "\x00", "#", "! ", "\\"),
)
SMUGGLED_WORDS = (
    *("; rm -rf /", "a;b", "&& x", "a&b", "| sh", "$(x)", "${x}", "`x`", "a\nb", "a\x00b", "\x00", "", "a\tb"),
    *("--rootdir=/", "-c", "-o", "-evil.py", "-/x", "/etc/passwd", "~/x", "../x", "x/../y", "..", "a\\b", "*", "a?b"),
    *("--config=x", "-exec", "%x", "=x", "\u2025/x", "\uff0fetc", "a<b", "a>b"),
)  # fmt: skip


def smuggled_lines(contract: Contract) -> Iterator[str]:
    """Yield the contract's example with each variant put in, but options that it lists with a typed value."""
    listed = dict(contract.valued)
    for after in AFTER:
        if (after.split() or [""])[0] not in listed:
            yield contract.example + after
    for before in BEFORE:
        yield before + contract.example
    for option in listed:
        for value in SMUGGLED_WORDS:
            yield f'{contract.example} {option} "{value}"'
