"""What is wrong with the server and with the plans that it keeps, and what of that can be mended safely.

`rounds.examine` looks, `repair.mend` mends; `server`, `streams`, `plans`, `history` and `orphans` are the checks.
"""
