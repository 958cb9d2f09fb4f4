"""Delivered changes at their forge: read as it shows them, answered, and followed until they are merged."""
