"""Finds changes that weaken tests, suppress findings or deceive a runner, from texts alone."""
