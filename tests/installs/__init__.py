"""The product where nothing else is: the wheel with each extra, in environments that have no developer's tool.

`uv run python -m tests.installs` runs all of it, as a stage of `.ci/run`.
"""
