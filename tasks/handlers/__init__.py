"""Handlers of messages: one module for each kind of message, with pure functions that return changesets."""

from tasks import features as features  # fills the tables that the handlers walk
