"""A delivered change at GitLab: a merge request, by its REST interface (docs.gitlab.com/api)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from schemas.stored.delivered import DeliveredChange
from tasks.delivered.seen import Checks, Commit, Failure, Remark, SeenChange, Stale
from worker.delivered.reading import (
    MOST_LOGS,
    OURS,
    Writers,
    at,
    body_of,
    dicts,
    in_order,
    is_there,
    listing_of,
    log_tails,
    text,
    time_of,
)
from worker.webhooks.failures import failures_of
from worker.webhooks.forge import PAGE, Forge, ForgeRefuses

STATES = {"success": Checks.GREEN, "skipped": Checks.GREEN, "failed": Checks.RED}
BOT = re.compile(r"(?:project|group)_\d+_bot\w*|service_account_\w+", re.ASCII)  # as GitLab names users of tokens
DEVELOPER = 30  # the access level from which a member may push


@dataclass(frozen=True, slots=True)
class GitLab:
    """Merge requests of one project at `forge`."""

    forge: Forge
    repo: str
    writers: Writers = field(default_factory=Writers)

    @property
    def _base(self) -> str:
        return self.forge.project(self.repo)

    def _request(self, change: DeliveredChange) -> str:
        return f"{self._base}/merge_requests/{change.number}"

    def read(self, change: DeliveredChange) -> SeenChange | None:
        """Return the change as the forge shows it; None if its branch has no merge request."""
        asked = urlencode({"source_branch": change.branch, "state": "all", "per_page": 10})
        listed = dicts(self.forge.json(f"{self._base}/merge_requests?{asked}"))
        listed = [each for each in listed if each.get("source_project_id") == each.get("project_id")]
        if not listed:
            return None
        known = [each for each in listed if each.get("iid") == change.number]
        found = (known or sorted(listed, key=lambda each: each.get("state") != "opened"))[0]
        number, head, target = int(found["iid"]), text(found, "sha"), text(found, "target_branch")
        place = f"{self._base}/merge_requests/{number}"
        if found.get("state") == "merged":
            merged = time_of(found, "merged_at") or 0
            names = ("merge_commit_sha", "squash_commit_sha", "sha")
            into = tuple(filter(None, (text(found, name) for name in names)))
            gone = self._reverted_at(number, into, target, text(found, "merged_at"))
            return SeenChange(number, head, target, merged_at=merged, merged_as=into, reverted_at=gone)
        if found.get("state") == "closed":
            return SeenChange(number, head, target, closed_at=time_of(found, "closed_at"))
        pipeline = self._pipeline(place)
        return SeenChange(
            number,
            head,
            target,
            is_draft=found.get("draft") is True,
            checks=STATES.get(text(pipeline, "status"), Checks.RUNNING) if pipeline else Checks.NONE,
            commits=tuple(map(_commit, reversed(self.forge.pages(f"{place}/commits?per_page={PAGE}")[0]))),
            remarks=in_order(list(self._threads(place))),
        )

    def failure(self, seen: SeenChange) -> Failure:
        """Return the names, failing tests and logs of the failed jobs."""
        pipeline = self._pipeline(f"{self._base}/merge_requests/{seen.number}")
        if not pipeline:
            return Failure()
        number, context = int(pipeline["id"]), dict[str, Any]()
        with suppress(ForgeRefuses):
            context = failures_of(self.forge, self.repo, {"pipeline": number})
        found = self.forge.json(f"{self._base}/pipelines/{number}/jobs?scope[]=failed&per_page={PAGE}")
        failed = [job for job in dicts(found) if job.get("allow_failure") is not True]
        log = log_tails(self.forge, (f"{self._base}/jobs/{job['id']}/trace" for job in failed[:MOST_LOGS]))
        whole = "\n".join(filter(str.strip, (log, context.get("failure_log", ""))))
        names = tuple(text(job, "name") for job in failed)
        return Failure(names, tuple(context.get("failing_tests", ())), whole, (str(number),))

    def stale(self, seen: SeenChange) -> Stale:
        """Return whether an open change conflicts with its target branch or is behind it; NO if that is unknown."""
        place = f"{self._base}/merge_requests/{seen.number}?include_diverged_commits_count=true"
        found = self.forge.json(place)
        if at(found, "has_conflicts") is True:
            return Stale.CONFLICT
        behind = at(found, "diverged_commits_count")
        return Stale.BEHIND if isinstance(behind, int) and behind > 0 else Stale.NO

    def answer(self, change: DeliveredChange, thread: str, text: str) -> None:
        """Answer a thread of the review, unless the answer exists already."""
        place = f"{self._request(change)}/discussions/{quote(thread.partition(':')[0], safe='')}"
        if not any(is_there(text, note) for note in dicts(at(self.forge.json(place), "notes"))):
            self.forge.send("POST", f"{place}/notes", body_of(text))

    def comment(self, change: DeliveredChange, text: str) -> None:
        """Comment on the change as a whole, unless the same comment exists already."""
        place = f"{self._request(change)}/notes"
        if not any(is_there(text, note) for note in dicts(self.forge.json(f"{place}?sort=desc&per_page={PAGE}"))):
            self.forge.send("POST", place, body_of(text))

    def set_ready(self, change: DeliveredChange) -> None:
        """Mark a draft merge request as ready for review."""
        found = self.forge.json(self._request(change))
        title = text(found, "title")
        if isinstance(found, dict) and found.get("draft") and title.startswith(DRAFT):
            self.forge.send("PUT", self._request(change), {"title": title.removeprefix(DRAFT)})

    def run_again(self, run: str) -> None:
        """Run the failed jobs of a pipeline again."""
        self.forge.send("POST", f"{self._base}/pipelines/{quote(run, safe='')}/retry")

    def _pipeline(self, place: str) -> dict[str, Any] | None:
        """Return the newest pipeline of a merge request that counts for GitLab; None if there is none."""
        found = at(self.forge.json(place), "head_pipeline")
        return found if isinstance(found, dict) else None

    def _threads(self, place: str) -> Iterator[Remark]:
        """Yield the open threads with comments of users who may push; other comments do not count."""
        for each in self.forge.pages(f"{place}/discussions?per_page={PAGE}")[0]:
            notes = [note for note in dicts(each.get("notes")) if note.get("system") is not True]
            is_resolved = any(note.get("resolved") is True for note in notes)
            counted = [note for note in notes if self._counts(note)]
            if is_resolved or not counted:
                continue
            last, line, path = counted[-1], at(notes[0], "position.new_line"), text(notes[0], "position.new_path")
            said = "\n".join(text(note, "body") for note in counted)
            key, when = f"{each.get('id')}:{last.get('id')}", time_of(last, "created_at") or 0
            yield Remark(key, text(last, "author.username"), said, when, f"{path}:{line}" if line else path)

    def _counts(self, note: Mapping[str, Any]) -> bool:
        """Return whether a person who may push wrote the note, and the planner did not."""
        words, person = text(note, "body"), at(note, "author.id")
        if not words.strip() or OURS in words or not isinstance(person, int):
            return False
        if BOT.fullmatch(text(note, "author.username")):
            return False
        place = f"{self._base}/members/all/{person}"

        def may() -> bool:
            level = at(self.forge.json(place), "access_level")
            return isinstance(level, int) and level >= DEVELOPER

        return self.writers.may(place, may)

    def _reverted_at(self, number: int, into: Sequence[str], target: str, since: str) -> int | None:
        """Return the time (ms) of a commit on the target branch whose message reverts the change; None without one."""
        asked = urlencode({"ref_name": target, "since": since, "per_page": PAGE})
        words = [f"This reverts commit {each}" for each in into]
        words.append(f"This reverts merge request !{number}")
        for each in listing_of(self.forge, f"{self._base}/repository/commits?{asked}"):
            lines = text(each, "message").splitlines()
            if any(line.startswith(word) for line in lines for word in words):
                return time_of(each, "committed_date")
        return None


DRAFT = "Draft: "


def _commit(found: Mapping[str, Any]) -> Commit:
    people = [(text(found, f"{role}_name"), text(found, f"{role}_email")) for role in ("author", "committer")]
    return Commit(text(found, "id"), text(found, "message"), is_rewritten=people[0] != people[1])
