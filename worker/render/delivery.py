"""The state of a delivered change at its forge, in words."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.delivered import DeliveryState, DeliveryView

WORDS = {
    DeliveryState.DELIVERABLE: "waits until its repository takes one more change",
    DeliveryState.OPEN: "open",
    DeliveryState.CHECKS_RED: "open, and its checks are red",
    DeliveryState.CHANGES_ASKED: "open, and its review asks for more",
    DeliveryState.MERGED: "merged",
    DeliveryState.CLOSED: "closed without being merged",
    DeliveryState.REVERTED: "merged, and reverted since",
}

CAUSES = {"checks": "red checks", "review": "the review", "target": "its target branch"}


def describe_delivery(view: DeliveryView) -> Iterator[str]:
    """Yield sentences about a delivery: its state, the plans that continue it, and why it is left to a person."""
    yield f"{WORDS[view.state]} since {view.since[:16].replace('T', ' ')} UTC"
    for each in view.follow_ups:
        cause = CAUSES.get(each.why, each.why)
        yield f"{'went' if each.ended else 'goes'} on because of {cause}: {each.plan_id or each.goal_id}"
    if view.handed_over:
        yield f"left to a person: {view.handed_over}"
