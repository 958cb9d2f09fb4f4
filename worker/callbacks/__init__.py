"""Callbacks: notifies endpoints over HTTP about plans, from the outbox that commits write."""
