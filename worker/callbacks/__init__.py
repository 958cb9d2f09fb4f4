"""Callbacks: what becomes of plans is told to endpoints over HTTP, out of the outbox that commits write."""
