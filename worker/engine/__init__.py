"""From messages to commits: outcomes, clocks, goals and bulk commands, through the pure handlers into the store."""
