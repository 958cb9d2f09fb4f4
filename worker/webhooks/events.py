"""Reads a payload in the form of its sender: its repository, branch, people and comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from schemas import codec
from tasks.base.errors import PlannerError
from worker.webhooks.sources_file import Scheme

FORM = "application/x-www-form-urlencoded"
HEADS = "refs/heads/"
RUNS = ("workflow_run", "check_suite", "check_run.check_suite", "workflow_job")
GITHUB_BRANCHES = (*(f"{run}.head_branch" for run in RUNS), "pull_request.head.ref", "merge_group.head_ref", "ref")
GITHUB_ACTORS = (
    *("sender.login", "workflow_run.actor.login", "workflow_run.triggering_actor.login"),
    *("check_run.app.slug", "check_suite.app.slug"),
    *("comment.performed_via_github_app.slug", "issue.performed_via_github_app.slug"),
)
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40}|[0-9a-f]{64})\b")
MOST_REVERTED = 50
OWN_CONTEXT = "planner"  # name of our own commit statuses
OF_MERGE_REQUESTS = ("merge_request_event", "external_pull_request_event")  # sources of a pipeline
GITLAB_BRANCHES = ("object_attributes.ref", "merge_request.source_branch", "object_attributes.source_branch", "ref")
GITLAB_ACTORS = ("user.username", "user_username")


class NoEvent(PlannerError):
    """The body is no JSON object."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a forge. `people` are words for its author that a rule may name: a role, or a username."""

    text: str
    people: tuple[str, ...]
    is_created: bool
    is_of_person: bool


@dataclass(frozen=True, slots=True)
class Event:
    """One webhook delivery, decoded. `delivery` is the sender's id, which is the same if the delivery is sent again."""

    scheme: Scheme
    name: str
    delivery: str
    payload: Mapping[str, Any]

    def at(self, path: str) -> Any:
        """Return the value at a dotted path of the payload; None if there is none."""
        return _at(self.payload, path)

    @property
    def repository(self) -> str:
        """The repository that the payload is about; empty if it names none."""
        found = self.at("repository.full_name" if self.scheme is Scheme.GITHUB else "project.path_with_namespace")
        return found if isinstance(found, str) else ""

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches that the event is about."""
        paths = {Scheme.GITHUB: GITHUB_BRANCHES, Scheme.GITLAB: GITLAB_BRANCHES}.get(self.scheme, ())
        listed = self.at("branches") if self.scheme is Scheme.GITHUB else None  # of a `status`
        named = (_text(_at(each, "name")) for each in (listed if isinstance(listed, list) else ()))
        return tuple(each.removeprefix(HEADS) for each in (*self._texts(paths), *named) if each)

    @property
    def is_push(self) -> bool:
        """Whether the event reports a new commit of a branch."""
        return bool(self.at("after")) and str(self.at("ref")).startswith(HEADS)

    @property
    def reverted(self) -> tuple[str, ...]:
        """The commits that the messages of the pushed commits name as reverted."""
        listed = self.at("commits")
        told = [_text(_at(each, "message")) for each in (listed if isinstance(listed, list) else ())]
        return tuple(found for message in told for found in REVERTS.findall(message))[:MOST_REVERTED]

    @property
    def actors(self) -> tuple[str, ...]:
        """The names of the users and the slugs of the apps that caused the event."""
        return tuple(self._texts({Scheme.GITHUB: GITHUB_ACTORS, Scheme.GITLAB: GITLAB_ACTORS}.get(self.scheme, ())))

    @property
    def is_own_status(self) -> bool:
        """Whether the event is a commit status that a planner wrote."""
        return self.scheme is Scheme.GITHUB and self.name == "status" and self.at("context") == OWN_CONTEXT

    @property
    def author(self) -> str:
        """The word that a rule may use for the author of an issue: on GitHub a role, on GitLab a username."""
        return _text(self.at("user.username" if self.scheme is Scheme.GITLAB else "issue.author_association"))

    @property
    def is_of_fork(self) -> bool:
        """Whether the code that ran, or that is to be merged, may come from a fork."""
        if self.scheme is Scheme.GITHUB:
            return self._is_of_github_fork()
        return self.scheme is Scheme.GITLAB and self._is_of_gitlab_fork()

    def _is_of_gitlab_fork(self) -> bool:
        place = "object_attributes" if self.name == "merge_request" else "merge_request"
        is_named = self.name == "merge_request" or self.at(place) is not None
        if is_named or self.at("object_attributes.source") in OF_MERGE_REQUESTS:
            own = self.at("project.id")
            return own is None or self.at(f"{place}.source_project_id") != own
        return False

    def _is_of_github_fork(self) -> bool:
        if self.name == "workflow_job" or self.at("workflow_job") is not None:
            return True  # GitHub does not report the repository of a job's commit
        if self.name == "status" and not (isinstance(listed := self.at("branches"), list) and listed):
            return True  # GitHub lists the repository's own branches, and a fork's commit is in none of them
        return self._is_head_of_another() or self._is_check_of_another()

    def _is_head_of_another(self) -> bool:
        own = self.at("repository.id")
        heads = {"workflow_run": "workflow_run.head_repository.id", "pull_request": "pull_request.head.repo.id"}
        told = [self.at(head) for about, head in heads.items() if self.name == about or self.at(about) is not None]
        return any(own is None or each != own for each in told)  # null too: of a fork that is gone

    def _is_check_of_another(self) -> bool:
        own = self.at("repository.id")
        for name, run in (("check_suite", "check_suite"), ("check_run", "check_run.check_suite")):
            if self.name == name or self.at(run) is not None:
                listed = self.at(f"{run}.pull_requests")
                heads = [_at(each, "head.repo.id") for each in (listed if isinstance(listed, list) else ())]
                if own is None or not self.at(f"{run}.head_branch") or any(each != own for each in heads):
                    return True  # GitHub names the branch of a check where it is the repository's own
        return False

    @property
    def comment(self) -> Comment | None:
        """The comment that the event is about; None if it is about no comment."""
        if self.scheme is Scheme.GITHUB and isinstance(self.at("comment"), dict):
            is_own = self.at("comment.user.id") == self.at("sender.id")
            return Comment(
                text=_text(self.at("comment.body")),
                people=(_text(self.at("comment.author_association")),),
                is_created=self.at("action") == "created",
                is_of_person=is_own and self.at("comment.user.type") == "User",
            )
        if self.scheme is Scheme.GITLAB and self.at("object_kind") == "note":
            is_own = self.at("object_attributes.author_id") == self.at("user.id")
            return Comment(
                text=_text(self.at("object_attributes.note")),
                people=(_text(self.at("user.username")),),
                is_created=self.at("object_attributes.action") in (None, "create"),
                is_of_person=is_own and self.at("object_attributes.system") is not True,
            )
        return None

    def _texts(self, paths: tuple[str, ...]) -> Iterator[str]:
        return (found for path in paths if isinstance(found := self.at(path), str) and found)


def read(scheme: Scheme, headers: Mapping[str, str], raw: bytes) -> Event:
    """Return the event in a delivery whose signature was checked before. Raises NoEvent."""
    payload = _payload(scheme, headers, raw)
    if scheme is Scheme.GITHUB:
        return Event(scheme, headers.get("x-github-event", ""), headers.get("x-github-delivery", ""), payload)
    if scheme is Scheme.GITLAB:
        delivery = headers.get("webhook-id") or headers.get("idempotency-key", "")
        return Event(scheme, _text(payload.get("object_kind")), delivery, payload)
    return Event(scheme, _text(payload.get("type")), headers.get("webhook-id", ""), payload)


def _payload(scheme: Scheme, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
    try:
        if scheme is Scheme.GITHUB and headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
            raw = parse_qs(raw.decode(), max_num_fields=8)["payload"][0].encode()
        payload = codec.loads(raw)
    except (codec.DecodeError, UnicodeDecodeError, ValueError, KeyError) as error:
        raise NoEvent from error
    if not isinstance(payload, dict):
        raise NoEvent
    return payload


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
