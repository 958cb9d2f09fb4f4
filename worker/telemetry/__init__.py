"""What a worker tells of itself: logs, servers that are away, and a file that shows that it lives."""
