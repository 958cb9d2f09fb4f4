"""Outside words made fit for a campaign: flat and harmless, as a slug, or as the two readings of an "or"."""

from __future__ import annotations

import re
import unicodedata

from tasks.text.fields import fit

MAX_SLUG = 48
MAX_READING = 100

_HEADER = re.compile(r"^##[ \t]+(\S.*)$", re.MULTILINE)
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t\r]*$|\Z)", re.MULTILINE | re.DOTALL)
_OR = re.compile(r"(?<![\w-])or(?![\w-])", re.IGNORECASE)  # never of "for", "error" or "or-tools"
_SENTENCE = re.compile(r"\n|[.;!?](?=\s|$)")


def kebab(text: str, size: int = MAX_SLUG) -> str:
    """Make a kebab-case slug of `text`; empty where it has no letter or digit."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[: size + 1].strip("-")[:size].strip("-")


def sections(objective: str) -> tuple[str, ...]:
    """List the `##` headers of a text, those in fenced blocks left out."""
    return tuple(header.strip() for header in _HEADER.findall(_FENCED.sub("", objective)))


def first_line(objective: str) -> str:
    """Take the first line that says something, without its `#`."""
    lines = (line.lstrip("# \t").strip() for line in objective.splitlines())
    return next(filter(None, lines), "")


def readings(objective: str) -> tuple[str, ...]:
    """Take the two sides of the first word "or", which leaves open what is wanted; empty where there is none."""
    for sentence in _SENTENCE.split(objective):
        left, *right = _OR.split(sentence.strip("# \t"), maxsplit=1)
        sides = tuple(fit(side.strip(" ,/"), MAX_READING) for side in (left, *right))
        if len(sides) > 1 and all(sides):
            return sides
    return ()
