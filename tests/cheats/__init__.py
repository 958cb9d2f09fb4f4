"""Agents that cheat, each a row, against the real controller: what becomes of a green that means nothing.

A row names what its agent writes in the place of a fix, and how its plan has to end: `refused` is never COMPLETED,
`told` may be, but says what is wrong. Rows stand in a module for each language; `python -m pytest tests/cheats`.
"""
