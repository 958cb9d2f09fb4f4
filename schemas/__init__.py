"""What is said on the wire and kept in Redis: frozen models, no decisions."""
