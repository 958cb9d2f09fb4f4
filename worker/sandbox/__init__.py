"""Starts programs that are not ours, such as agents and verifications, confined, and ends all that they started.

`sandbox` decides what a program may reach, `process` runs it, `launcher` is the program between ours and theirs.
"""
