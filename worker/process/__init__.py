"""A worker process: its container, wake-ups, poller, reader, watchdog, and how it begins and ends."""
