"""The version of the code that runs, as logs of plans and controllers name it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    CODE_VERSION = version("planner-worker")
except PackageNotFoundError:  # run from its sources
    CODE_VERSION = "unknown"
