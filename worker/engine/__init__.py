"""From messages to commits: outcomes, clocks, goals and bulk commands.

The pure handlers decide, the store keeps.
"""
