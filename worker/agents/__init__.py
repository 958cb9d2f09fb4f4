"""Describes the programs that work for a model: their commands, their input, and how their output is read.

Each program has a data file, in this folder or written by the operator (docs/agents.md). The controller and the
drafters know no program by its name.
"""
