"""The gateway over real HTTP, with a real server behind it."""
