"""Follows delivered changes at their forge until they are merged or closed, and answers reviews and failed checks."""
