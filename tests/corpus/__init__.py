"""Recorded plans: what came in, and every spec, event, log line and state that came out, byte for byte.

`uv run python -m tests.corpus` compares the recorded plans with those of today, and prints what differs;
`uv run python -m tests.corpus --write` records them anew, after a rule was changed on purpose.
"""
