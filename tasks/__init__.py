"""What to do when a message arrives: pure functions that know no Redis, Celery, HTTP, clock, random or environment."""
