"""A worker process: its container, wake-ups, pollers, watchdog, and how it begins and ends."""
