"""Messages of the wire and records in Redis: frozen models, no decisions."""
