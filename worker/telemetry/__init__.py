"""What a worker tells of itself: logs, outages, and a file of its life."""
