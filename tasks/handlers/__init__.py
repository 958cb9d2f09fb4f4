"""What becomes of a message: one module for each kind of message, each of pure functions that return changesets."""

from tasks import features as features  # which fills the tables that the handlers walk
