"""Webhooks in: what a forge or another service says happened becomes a goal, by an operator's rules."""
