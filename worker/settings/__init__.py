"""`PLANNER_*`: what operators may set, with its types, its secrets and the tools they add."""
