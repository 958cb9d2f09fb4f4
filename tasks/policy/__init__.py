"""The effects of outcomes on a plan: pure functions of plan values."""
