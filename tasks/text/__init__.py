"""Cleans text from outside for a prompt, a field, a path or a log."""
