"""What in a change weakens tests, suppresses findings or lies to a runner, read from texts alone."""
