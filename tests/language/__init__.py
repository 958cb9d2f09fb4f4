"""A check of the language that people read, by the rules of docs/contributing.md, "Language"."""
