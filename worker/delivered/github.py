"""A delivered change at GitHub, or at a server that speaks its REST interface (docs.github.com/rest)."""

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

RED = frozenset({"failure", "timed_out", "startup_failure"})
UNDONE = frozenset({"action_required", "cancelled", "stale"})  # conclusions of runs without a result
RED_STATUS = frozenset({"failure", "error"})
OWN_CONTEXT = "planner"  # the name of our own status of a commit
MAY_WRITE = frozenset({"admin", "maintain", "write"})
REVIEW = "review-"  # the beginning of the key of a review without a thread
READY = "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"


@dataclass(frozen=True, slots=True)
class GitHub:
    """Pull requests of one repository at `forge`."""

    forge: Forge
    repo: str
    writers: Writers = field(default_factory=Writers)

    @property
    def _base(self) -> str:
        return self.forge.project(self.repo)

    def read(self, change: DeliveredChange) -> SeenChange | None:
        """Return the change as the forge shows it; None if its branch has no pull request."""
        owner = self.repo.partition("/")[0]
        asked = urlencode({"head": f"{owner}:{change.branch}", "state": "all", "per_page": 10})
        listed = [each for each in dicts(self.forge.json(f"{self._base}/pulls?{asked}")) if _is_own(each)]
        if not listed:
            return None
        known = [each for each in listed if each.get("number") == change.number]
        found = (known or sorted(listed, key=lambda each: each.get("state") != "open"))[0]
        number, head = int(found["number"]), text(found, "head.sha")
        target, merged = text(found, "base.ref"), time_of(found, "merged_at")
        if merged is not None:
            into = tuple(filter(None, (text(found, "merge_commit_sha"), head)))
            gone = self._reverted_at(number, into, target, text(found, "merged_at"))
            return SeenChange(number, head, target, merged_at=merged, merged_as=into, reverted_at=gone)
        if found.get("state") != "open":
            return SeenChange(number, head, target, closed_at=time_of(found, "closed_at"))
        runs = self._runs(head)
        return SeenChange(
            number,
            head,
            target,
            is_draft=found.get("draft") is True,
            checks=_checks(runs, self._statuses(head)),
            commits=tuple(map(_commit, self.forge.pages(f"{self._base}/pulls/{number}/commits?per_page={PAGE}")[0])),
            remarks=in_order([*self._threads(number), *self._reviews(number)]),
        )

    def failure(self, seen: SeenChange) -> Failure:
        """Return the names, failing tests and logs of the failed checks."""
        failed = [run for run in self._runs(seen.head) if run.get("conclusion") in RED]
        suites = list(dict.fromkeys(at(run, "check_suite.id") for run in failed if at(run, "check_suite.id")))
        context: dict[str, Any] = {}
        for suite in suites[:MOST_LOGS]:
            about = {"suite": suite, **({"run": run} if (run := self._workflow_run(suite)) else {})}
            with suppress(ForgeRefuses):
                context = context or failures_of(self.forge, self.repo, about)
        actions = [run["id"] for run in failed if text(run, "app.slug") == "github-actions"]
        log = log_tails(self.forge, (f"{self._base}/actions/jobs/{job}/logs" for job in actions[:MOST_LOGS]))
        said = [f"{text(run, 'output.title')}\n{text(run, 'output.summary')}" for run in failed]
        names = [text(run, "name") for run in failed] or [text(each, "context") for each in self._red_statuses(seen)]
        whole = "\n".join(filter(str.strip, (*said, log, context.get("failure_log", ""))))
        return Failure(tuple(names), tuple(context.get("failing_tests", ())), whole, tuple(map(str, suites)))

    def stale(self, seen: SeenChange) -> Stale:
        """Return whether an open change conflicts with its target branch or is behind it; NO if that is unknown."""
        if at(self.forge.json(f"{self._base}/pulls/{seen.number}"), "mergeable") is False:
            return Stale.CONFLICT
        both = f"{quote(seen.target, safe='')}...{seen.head}"
        behind = at(self.forge.json(f"{self._base}/compare/{both}?per_page=1"), "behind_by")
        return Stale.BEHIND if isinstance(behind, int) and behind > 0 else Stale.NO

    def answer(self, change: DeliveredChange, thread: str, text: str) -> None:
        """Answer a thread of the review, unless the answer exists already.

        A review without a thread is answered by a comment that links to it.
        """
        if thread.startswith(REVIEW):
            self.comment(change, f"To [this review](#pullrequest{thread}): {text}")
            return
        first = thread.partition(":")[0]
        place = f"{self._base}/pulls/{change.number}/comments"
        there = self.forge.pages(f"{place}?per_page={PAGE}")[0]
        if not any(str(each.get("in_reply_to_id")) == first and is_there(text, each) for each in there):
            self.forge.send("POST", f"{place}/{first}/replies", body_of(text))

    def comment(self, change: DeliveredChange, text: str) -> None:
        """Comment on the change as a whole, unless the same comment exists already."""
        place = f"{self._base}/issues/{change.number}/comments"
        if not any(is_there(text, each) for each in self.forge.pages(f"{place}?per_page={PAGE}")[0]):
            self.forge.send("POST", place, body_of(text))

    def set_ready(self, change: DeliveredChange) -> None:
        """Mark a draft pull request as ready for review."""
        found = self.forge.json(f"{self._base}/pulls/{change.number}")
        if isinstance(found, dict) and found.get("draft"):
            query = {"query": READY, "variables": {"id": text(found, "node_id")}}
            self.forge.send("POST", f"{self.forge.api.removesuffix('/v3')}/graphql", query)

    def run_again(self, run: str) -> None:
        """Run the checks of a check suite again."""
        self.forge.send("POST", f"{self._base}/check-suites/{quote(run, safe='')}/rerequest")

    def _runs(self, head: str) -> list[dict[str, Any]]:
        asked = f"{self._base}/commits/{head}/check-runs?filter=latest&per_page={PAGE}"
        return self.forge.pages(asked, "check_runs")[0]

    def _statuses(self, head: str) -> list[dict[str, Any]]:
        found = self.forge.pages(f"{self._base}/commits/{head}/status?per_page={PAGE}", "statuses")[0]
        return [each for each in found if each.get("context") != OWN_CONTEXT]

    def _red_statuses(self, seen: SeenChange) -> list[dict[str, Any]]:
        return [each for each in self._statuses(seen.head) if each.get("state") in RED_STATUS]

    def _workflow_run(self, suite: int) -> int | None:
        found = dicts(at(self.forge.json(f"{self._base}/actions/runs?check_suite_id={suite}"), "workflow_runs"))
        run = found[0].get("id") if found else None
        return run if isinstance(run, int) else None

    def _threads(self, number: int) -> Iterator[Remark]:
        """Yield the review threads with comments of users who may write; other comments do not count."""
        threads: dict[Any, list[dict[str, Any]]] = {}
        for each in self.forge.pages(f"{self._base}/pulls/{number}/comments?per_page={PAGE}")[0]:
            threads.setdefault(each.get("in_reply_to_id") or each.get("id"), []).append(each)
        for first, comments in threads.items():
            if counted := [each for each in comments if self._counts(each)]:
                last = counted[-1]
                line = last.get("line") or last.get("original_line")
                place = f"{text(last, 'path')}:{line}" if line else text(last, "path")
                yield _remark(f"{first}:{last.get('id')}", counted, last, "created_at", place)

    def _reviews(self, number: int) -> Iterator[Remark]:
        """Yield the overall texts of reviews that request changes or comment, if their author may write."""
        for each in self.forge.pages(f"{self._base}/pulls/{number}/reviews?per_page={PAGE}")[0]:
            if each.get("state") in ("CHANGES_REQUESTED", "COMMENTED") and self._counts(each):
                yield _remark(f"{REVIEW}{each.get('id')}", [each], each, "submitted_at", "")

    def _counts(self, said: Mapping[str, Any]) -> bool:
        """Return whether a person who may write to the repository wrote the comment, and the planner did not."""
        words, login = text(said, "body"), text(said, "user.login")
        if not words.strip() or OURS in words or at(said, "user.type") != "User":
            return False
        place = f"{self._base}/collaborators/{quote(login, safe='')}/permission"
        return self.writers.may(place, lambda: text(self.forge.json(place), "permission") in MAY_WRITE)

    def _reverted_at(self, number: int, into: Sequence[str], target: str, since: str) -> int | None:
        """Return the time (ms) of a commit on the target branch whose message reverts the change; None without one."""
        asked = urlencode({"sha": target, "since": since, "per_page": PAGE})
        words = [f"This reverts commit {each}" for each in into]
        named = re.compile(rf"\bReverts {re.escape(self.repo)}#{number}\b")
        for each in listing_of(self.forge, f"{self._base}/commits?{asked}"):
            message = text(each, "commit.message")
            if named.search(message) or any(word in message for word in words):
                return time_of(each, "commit.committer.date")
        return None


def _is_own(found: Mapping[str, Any]) -> bool:
    """Return whether a pull request comes from a branch of the repository itself, not from a fork."""
    return at(found, "head.repo.id") is not None and at(found, "head.repo.id") == at(found, "base.repo.id")


def _checks(runs: Sequence[Mapping[str, Any]], statuses: Sequence[Mapping[str, Any]]) -> Checks:
    """Return the combined result of check runs and statuses: red if any failed, green after all succeeded."""
    if not (runs or statuses):
        return Checks.NONE
    if any(run.get("conclusion") in RED for run in runs) or any(each.get("state") in RED_STATUS for each in statuses):
        return Checks.RED
    is_over = all(run.get("status") == "completed" and run.get("conclusion") not in UNDONE for run in runs)
    return Checks.GREEN if is_over and all(each.get("state") == "success" for each in statuses) else Checks.RUNNING


def _commit(found: Mapping[str, Any]) -> Commit:
    people = [(text(found, f"commit.{role}.name"), text(found, f"commit.{role}.email")) for role in PEOPLE]
    return Commit(text(found, "sha"), text(found, "commit.message"), is_rewritten=people[0] != people[1])


PEOPLE = ("author", "committer")


def _remark(
    thread: str, comments: Sequence[Mapping[str, Any]], last: Mapping[str, Any], when: str, place: str
) -> Remark:
    said = "\n".join(text(each, "body") for each in comments)
    return Remark(thread, text(last, "user.login"), said, time_of(last, when) or 0, place)
