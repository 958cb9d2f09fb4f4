"""Turns messages into commits: outcomes, clocks, goals and bulk commands. Pure handlers decide, the store writes."""
