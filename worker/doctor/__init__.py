"""Finds problems of the server and its plans, and repairs those that are safe to repair.

`rounds.Rounds` checks, `finding.mend` repairs; `server`, `plans` and `orphans` are the checks, `stored` reads a plan.
"""
