"""Handles plans that a model or an agent drafted outside of the planner: cleans their words and governs their steps.

Nothing here knows a particular kind of goal. The input is untrusted and may have any shape. The output passes the
validator, or there are errors with the reasons.
"""
