"""Incoming webhooks: makes goals from events of forges and other services, by an operator's rules."""
