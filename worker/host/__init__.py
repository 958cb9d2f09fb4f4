"""A process's needs from its machine: files, terminal, git, an embedded server."""
