"""The command line: `planner`, its commands, and their common code."""
