"""Webhooks as forges send them: a file of sources, payloads, and their signatures."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from schemas import codec
from worker.webhooks.checking import read_checked
from worker.webhooks.sources_file import SourcesFile

SECRET = "It's a Secret to Everybody"
SIGNING = "whsec_" + b64encode(b"0123456789abcdef0123456789abcdef").decode()
SHA = "9f1c2d4e" * 5
RULE = """
[[source.rule]]
on = "workflow_run"
when = "action == 'completed' && workflow_run.conclusion == 'failure'"
repos = ["acme/shop"]
tenant = "acme"
queue = "default"
goal = "Fix the failing workflow {{ workflow_run.name }}"
language = "python"
test_command = "pytest"
allowed_files = ["src/app.py", "tests/test_app.py"]
base_sha = "{{ workflow_run.head_sha }}"
approvals = ["HIGH"]
coalesce = "{{ repository.id }}:{{ workflow_run.head_sha }}"
supersedes = "{{ repository.id }}:{{ workflow_run.head_branch }}"
order = "workflow_run.run_number"
resolves = "workflow_run.conclusion == 'success'"
"""
COMMENTS = """
[[source.rule]]
on = "issue_comment"
repos = ["acme/shop"]
command = "/plan"
allowed_files = ["src/app.py"]
"""
GITLAB = """
[[source.rule]]
on = "pipeline"
when = "object_attributes.status == 'failed'"
repos = ["acme/shop"]
goal = "Fix the pipeline of {{ object_attributes.ref }}"
base_sha = "{{ object_attributes.sha }}"
allowed_files = ["src/app.py"]
coalesce = "{{ object_attributes.sha }}"

[[source.rule]]
on = "issue"
when = "object_attributes.action == 'open'"
repos = ["acme/shop"]
goal = "{{ object_attributes.title }}"
allowed_files = ["src/app.py"]

[[source.rule]]
on = "note"
repos = ["acme/shop"]
command = "/plan"
from = ["alice"]
allowed_files = ["src/app.py"]
"""
STANDARD = """
[[source.rule]]
on = "incident.opened"
goal = "Repair {{ data.title }}"
repos = ["acme/shop"]
repo = "data.repository"
allowed_files = ["src/app.py"]
constraints = ["Seen by {{ data.monitor }}"]
failure_log = "{{ data.log }}"
"""


def source(name: str, scheme: str, rules: str, secrets: str = '"secret"', more: str = 'app = "our-app"') -> str:
    """Write one source of a file; `secrets` are its files."""
    return f'[[source]]\nname = "{name}"\nscheme = "{scheme}"\nsecret_file = [{secrets}]\n{more}\n{rules}\n'


def sources(folder: Path, text: str = "") -> SourcesFile:
    """Write a file of sources with its secrets, and read it; that of all three schemes unless `text` is another."""
    return read_checked(write(folder, text))


def write(folder: Path, text: str = "") -> Path:
    """Write a file of sources with its secrets."""
    (folder / "secret").write_text(SECRET + "\n")
    (folder / "signing").write_text(SIGNING + "\n")
    path = folder / "webhooks.toml"
    every = (
        source("github", "github", RULE + COMMENTS)
        + source("gitlab", "gitlab", GITLAB, '"secret", "signing"', 'app = "plan-bot"')
        + source("standard", "standard", STANDARD, '"signing"', "")
    )
    path.write_text(text or every)
    return path


REPOSITORY = {"id": 1, "full_name": "acme/shop"}
PERSON = {"id": 7, "login": "alice", "type": "User"}


def workflow_run(**changes: Any) -> dict[str, Any]:
    """Make the payload of a failed run; `changes` are those of the run."""
    run = {
        "id": 4711, "name": "CI", "conclusion": "failure", "head_sha": SHA, "head_branch": "main", "run_number": 12,
        "check_suite_id": 99, "head_repository": {"id": 1, "full_name": "acme/shop"}, "actor": PERSON,
    }  # fmt: skip
    return {"action": "completed", "workflow_run": run | changes, "repository": REPOSITORY, "sender": PERSON}


def issue_comment(text: str, role: str = "OWNER", **changes: Any) -> dict[str, Any]:
    """Make the payload of a new comment; `changes` are those of the payload."""
    comment = {"body": text, "author_association": role, "user": PERSON}
    found = {"action": "created", "comment": comment, "issue": {"number": 3}, "repository": REPOSITORY}
    return {**found, "sender": PERSON, **changes}


def pipeline(**changes: Any) -> dict[str, Any]:
    """Make GitLab's payload of a failed pipeline, as its documentation has it; `changes` are those of the pipeline."""
    found = {
        "id": 31, "iid": 3, "ref": "main", "tag": False, "sha": SHA, "before_sha": "0" * 40, "source": "push",
        "status": "failed", "detailed_status": "failed", "stages": ["test"], "duration": 63,
    }  # fmt: skip
    return {
        "object_kind": "pipeline",
        "object_attributes": found | changes,
        "merge_request": None,
        "user": {"id": 7, "name": "Alice", "username": "alice"},
        "project": {"id": 1, "name": "Shop", "path_with_namespace": "acme/shop", "default_branch": "main"},
        "builds": [{"id": 380, "stage": "test", "name": "pytest", "status": "failed", "allow_failure": False}],
    }


def note(text: str, username: str = "alice", **changes: Any) -> dict[str, Any]:
    """Make GitLab's payload of a comment on an issue, as its documentation has it."""
    attributes = {"id": 1241, "note": text, "noteable_type": "Issue", "author_id": 7, "system": False}
    return {
        "object_kind": "note",
        "event_type": "note",
        "user": {"id": 7, "username": username},
        "project": {"id": 1, "path_with_namespace": "acme/shop"},
        "object_attributes": {**attributes, "action": "create", **changes},
        "issue": {"id": 92, "iid": 17, "title": "test"},
    }


def by_github(event: str, payload: Any, delivery: str = "d-1", secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """Sign as GitHub does; returns headers and body."""
    raw = payload if isinstance(payload, bytes) else codec.dumps(payload)
    made = "sha256=" + hmac.new(secret.encode(), raw, "sha256").hexdigest()
    return {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": delivery,
        "x-hub-signature-256": made,
    }, raw


def by_standard(payload: Any, at: int, delivery: str = "msg_1", secret: str = SIGNING) -> tuple[dict[str, str], bytes]:
    """Sign a payload by Standard Webhooks; return headers and body."""
    raw = payload if isinstance(payload, bytes) else codec.dumps(payload)
    key = b64decode(secret.removeprefix("whsec_"))
    made = b64encode(hmac.digest(key, f"{delivery}.{at}.".encode() + raw, "sha256")).decode()
    return {"webhook-id": delivery, "webhook-timestamp": str(at), "webhook-signature": f"v1,{made}"}, raw
