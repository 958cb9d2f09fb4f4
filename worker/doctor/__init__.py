"""What is wrong with the server and its plans, and what of that can be mended safely.

`rounds.Rounds` looks, `finding.mend` mends; `server`, `plans` and `orphans` are the checks, `stored` reads a plan.
"""
