"""A server that the next version has been on: its function libraries are newer, and its layout may be."""

from __future__ import annotations

from redis import Redis

from schemas.stored_step import LAYOUT
from worker.store import functions
from worker.store.keys import DEPLOYMENT

NEWER_LAYOUT = LAYOUT + 1
NEW_FUNCTION = "planner_of_the_next_version"


def load_libraries(client: Redis) -> None:
    """Load every library as the next version has it: its version is higher, and one has a function more."""
    for library in functions.LIBRARIES:
        text = functions.source(library).replace(
            f"-- version {functions.VERSION}", f"-- version {functions.VERSION + 1}"
        )
        if library == "planner_plans":
            text += f"\nredis.register_function('{NEW_FUNCTION}', function() return 'new' end)\n"
        client.function_load(text, replace=True)


def raise_layout(client: Redis, partitions: int = 1) -> None:
    """Have records of the next version's layout there."""
    client.hset(DEPLOYMENT, mapping={"partitions": partitions, "layout": NEWER_LAYOUT})
