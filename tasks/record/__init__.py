"""Reads the record of a plan again: its log is folded, compared, and decided under other rules."""
