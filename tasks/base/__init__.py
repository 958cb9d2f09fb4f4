"""Modules for every other folder of the decisions: errors, policies, policy versions, the log chain, batches."""
