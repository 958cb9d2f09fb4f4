"""Callbacks: sends events of plans to endpoints over HTTP, from the outbox that commits write."""
