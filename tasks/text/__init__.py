"""Text from outside made fit for a prompt, a field, a path or a log."""
