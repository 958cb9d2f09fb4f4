"""The command line: `planner`, its commands, and how they speak."""
