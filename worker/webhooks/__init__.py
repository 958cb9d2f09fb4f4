"""Makes goals from the webhooks of forges and other services, by an operator's rules."""
