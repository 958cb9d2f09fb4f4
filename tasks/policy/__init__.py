"""What outcomes do to a plan: pure functions over plan values."""

POLICY_VERSION = 1  # of the tables in this package; plans and what explains their ends name it
