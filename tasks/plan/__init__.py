"""A plan in memory: the snapshot that is read, the unit of work that changes it, the changeset that is written."""
