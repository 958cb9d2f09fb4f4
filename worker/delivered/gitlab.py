"""A delivered change at GitLab: a merge request, by its REST interface (docs.gitlab.com/api)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from schemas.stored.delivered import DeliveredChange
from tasks.delivered.seen import Checks, Commit, Failure, Remark, SeenChange
from worker.delivered.reading import MOST_LOGS, OURS, Writers, at, dicts, in_order, log_tails, text, time_of
from worker.webhooks.failures import failures_of
from worker.webhooks.forge import PAGE, Forge, ForgeRefuses

STATES = {"success": Checks.GREEN, "skipped": Checks.GREEN, "failed": Checks.RED, "canceled": Checks.RED}
DEVELOPER = 30  # the access level from which a member may push


@dataclass(frozen=True, slots=True)
class GitLab:
    """Merge requests of one project at `forge`."""

    forge: Forge
    repo: str
    _writers: Writers = field(default_factory=Writers)

    @property
    def _base(self) -> str:
        return self.forge.project(self.repo)

    def _request(self, change: DeliveredChange) -> str:
        return f"{self._base}/merge_requests/{change.number}"

    def read(self, change: DeliveredChange) -> SeenChange | None:
        """Return the change as the forge shows it; None where the branch has no merge request."""
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
        pipeline = self._pipeline(place, head)
        return SeenChange(
            number,
            head,
            target,
            is_draft=found.get("draft") is True,
            checks=STATES.get(text(pipeline, "status"), Checks.RUNNING) if pipeline else Checks.NONE,
            commits=tuple(map(_commit, self.forge.pages(f"{place}/commits?per_page={PAGE}")[0])),
            remarks=in_order(list(self._threads(place))),
        )

    def failure(self, seen: SeenChange) -> Failure:
        """Return the details of red checks."""
        pipeline = self._pipeline(f"{self._base}/merge_requests/{seen.number}", seen.head)
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
        return Failure(names, tuple(context.get("failing_tests", ())), whole, str(number))

    def answer(self, change: DeliveredChange, thread: str, text: str) -> None:
        """Answer a thread of the review."""
        name = quote(thread.partition(":")[0], safe="")
        self.forge.send("POST", f"{self._request(change)}/discussions/{name}/notes", _body(text))

    def comment(self, change: DeliveredChange, text: str) -> None:
        """Comment on the change as a whole, unless that comment is there already."""
        place = f"{self._request(change)}/notes"
        newest = dicts(self.forge.json(f"{place}?sort=desc&per_page={PAGE}"))
        if _body(text)["body"] not in [each.get("body") for each in newest]:
            self.forge.send("POST", place, _body(text))

    def set_ready(self, change: DeliveredChange) -> None:
        """End the draft: the change may be reviewed and merged."""
        found = self.forge.json(self._request(change))
        title = text(found, "title")
        if isinstance(found, dict) and found.get("draft") and title.startswith(DRAFT):
            self.forge.send("PUT", self._request(change), {"title": title.removeprefix(DRAFT)})

    def run_again(self, run: str) -> None:
        """Have the failed jobs of a pipeline run again."""
        self.forge.send("POST", f"{self._base}/pipelines/{quote(run, safe='')}/retry")

    def _pipeline(self, place: str, head: str) -> dict[str, Any] | None:
        """Return the newest pipeline of the newest commit."""
        listed = [each for each in dicts(self.forge.json(f"{place}/pipelines")) if each.get("sha") == head]
        return max(listed, key=lambda each: int(each.get("id") or 0), default=None)

    def _threads(self, place: str) -> Iterator[Remark]:
        """Yield the open threads whose last word is of a person who may write."""
        for each in self.forge.pages(f"{place}/discussions?per_page={PAGE}")[0]:
            notes = [note for note in dicts(each.get("notes")) if note.get("system") is not True]
            is_resolved = any(note.get("resolved") is True for note in notes)
            if is_resolved or not notes or not self._counts(notes[-1]):
                continue
            last, line, path = notes[-1], at(notes[0], "position.new_line"), text(notes[0], "position.new_path")
            said = "\n".join(text(note, "body") for note in notes if self._counts(note))
            key, when = f"{each.get('id')}:{last.get('id')}", time_of(last, "created_at") or 0
            yield Remark(key, text(last, "author.username"), said, when, f"{path}:{line}" if line else path)

    def _counts(self, note: Mapping[str, Any]) -> bool:
        """Whether a note is of a member who may push, and not ours."""
        words, person = text(note, "body"), at(note, "author.id")
        if not words.strip() or OURS in words or not isinstance(person, int):
            return False
        place = f"{self._base}/members/all/{person}"

        def may() -> bool:
            level = at(self.forge.json(place), "access_level")
            return isinstance(level, int) and level >= DEVELOPER

        return self._writers.may(str(person), may)

    def _reverted_at(self, number: int, into: Sequence[str], target: str, since: str) -> int | None:
        """Return when a commit of the target reverted the change, by its message; None if none did."""
        asked = urlencode({"ref_name": target, "since": since, "per_page": PAGE})
        words = [f"This reverts commit {each}" for each in into]
        words.append(f"This reverts merge request !{number}")
        for each in dicts(self.forge.json(f"{self._base}/repository/commits?{asked}")):
            lines = text(each, "message").splitlines()
            if any(line.startswith(word) for line in lines for word in words):
                return time_of(each, "committed_date")
        return None


DRAFT = "Draft: "


def _commit(found: Mapping[str, Any]) -> Commit:
    people = [(text(found, f"{role}_name"), text(found, f"{role}_email")) for role in ("author", "committer")]
    return Commit(text(found, "id"), text(found, "message"), is_rewritten=people[0] != people[1])


def _body(text: str) -> dict[str, str]:
    return {"body": f"{text}\n\n{OURS}"}
