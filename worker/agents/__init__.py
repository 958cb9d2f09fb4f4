"""Programs that work for a model: how they are run, their input, and how their output is read.

Each is a data file in this folder or of the operator's own (docs/agents.md). The controller and the drafters run them
without knowing any by name.
"""
