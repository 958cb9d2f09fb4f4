"""One story for each kind of goal: a module that plays it, and a TOML file with its texts.

The file has the repository's commits, the edits of the scripted agent, the goal, and the agent's answers. A
repository's pyproject.toml disables plugins of pytest that take longer to load than its tests take to run.
"""
