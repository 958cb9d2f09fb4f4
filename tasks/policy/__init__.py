"""What outcomes do to a plan: pure functions over plan values."""
