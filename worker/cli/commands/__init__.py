"""One module for each command of `planner`, or for a family of them."""
