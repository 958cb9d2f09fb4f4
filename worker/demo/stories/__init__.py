"""One story for each kind of goal: a module with what is done and shown, and a TOML file with what is said.

The file has the repository's commits, the edits of the scripted agent, the goal, and what the agent answers. A
repository's pyproject.toml leaves plugins of pytest out that take longer to load than its tests take to run.
"""
