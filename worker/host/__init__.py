"""What a process needs of its machine: files, terminal, git, a server of its own."""
