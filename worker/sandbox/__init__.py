"""Starts foreign programs, such as agents and verifications, confined, and stops everything that they started.

`sandbox` decides on the paths that a program may reach, `process` runs it, `launcher` is the program in between.
"""
