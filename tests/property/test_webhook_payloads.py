"""Whatever a signed payload holds, it becomes text, checked values and keys: never files, commands, limits, rights."""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.goal import Goal
from tasks.text.sanitize import Treatment, sanitize
from tests.support import webhooks
from tests.support.attacks import BY_CLASS
from tests.support.webhooks import SHA
from worker.webhooks import intake
from worker.webhooks.events import Event
from worker.webhooks.rules import Ignored
from worker.webhooks.sources_file import Scheme, SourcesFile

ANY = """
[[source.rule]]
on = "any"
repos = ["acme/shop"]
allow = ["forks"]
tenant = "acme"
queue = "slow"
goal = "Fix {{ a }} of {{ b }}"
constraints = ["mind {{ c }}"]
failure_log = "{{ a }}{{ c }}"
base_sha = "{{ b }}"
test_command = "pytest"
language = "python"
allowed_files = ["src/app.py"]
approvals = ["HIGH"]
limits = {tokens = 5000}
coalesce = "{{ c }}"
supersedes = "{{ a }}"
order = "b"
"""
POLICY = {
    "tenant": "acme",
    "queue": "slow",
    "allowed_files": ["src/app.py"],
    "approvals": ["HIGH"],
    "limits": {"tokens": 5000},
}
OWN = {"repository": {"full_name": "ACME/shop"}, "project": {"path_with_namespace": "acme/SHOP"}}
TEXTS = st.one_of(
    st.text(max_size=200),
    st.sampled_from(["{{ b }}", "}}", "/plan", "../x", "acme/shop", "\u202e", "x" * 9000, "sha256=", "null"]),
    st.sampled_from([text for texts in BY_CLASS.values() for text in texts]),
    st.sampled_from([SHA, SHA.upper(), "0" * 40, SHA[:39], SHA + "\n"]),
)
NAMES = st.sampled_from(["a", "b", "c", "repository", "full_name", "id", "sender", "login", "goal", "allowed_files"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)),
    max_leaves=12,
)


@functools.cache
def known() -> SourcesFile:
    """Read the file of the rule, once."""
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(webhooks.source(scheme, scheme, ANY) for scheme in (Scheme.GITHUB, Scheme.GITLAB))
        return webhooks.sources(Path(folder), text)


@given(
    st.dictionaries(NAMES, VALUES, max_size=8),
    st.fixed_dictionaries({"a": TEXTS, "b": st.just(SHA) | TEXTS, "c": TEXTS}),
)
def test_a_payload_has_no_say_in_what_a_plan_may_do(payload: dict[str, Any], scalars: dict[str, str]) -> None:
    for source in known().source:
        said = payload | (OWN | scalars if len(payload) % 3 else {})

        made = intake.prepare(source, Event(source.scheme, "any", "", said), codec.dumps(said))

        if isinstance(made, Ignored):
            assert re.fullmatch(r"[a-z_]+: .+", made.reason)
            continue
        goal = made.goal
        assert goal is not None
        Goal.model_validate(goal)
        assert {key: goal[key] for key in POLICY} == POLICY
        assert set(goal) == {*POLICY, "goal", "goal_id", "context", "constraints"}
        context = goal["context"]
        assert {**context, "base_sha": "", "failure_log": ""} == {
            "repo": "acme/shop",
            "language": "python",
            "test_command": "pytest",
            "base_sha": "",
            "failure_log": "",
        }
        assert re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", context["base_sha"])
        texts = [goal["goal"], context["failure_log"], *goal["constraints"]]
        assert not any(sanitize(text, Treatment.FLAG).findings for text in texts)
        assert len(codec.dumps(goal)) < 256 * 1024
