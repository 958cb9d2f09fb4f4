"""Agents that cheat, each a row, against the real controller: what becomes of a green that means nothing.

A row names what its agent writes in the place of a fix, and how its plan has to end: `refused` is never COMPLETED,
`told` may be, but says what is wrong. Rows stand in a module for each language; `python -m tests.cheats` plays them.
A third of them is held back: no rule was made or changed for one of these, so that they show how much is found.
`changes.py` has changes of a single file, from which no test is run.
"""
