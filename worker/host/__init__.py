"""What a process needs of its machine: files, terminal, git, and a server of its own."""
