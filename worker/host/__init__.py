"""The interface of a process to its machine: files, terminal, git, signals, an embedded server."""
