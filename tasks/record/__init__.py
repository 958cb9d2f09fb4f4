"""Reads the record of a plan again: replays its log, compares it, and decides it under other rules."""
