"""Programs that work for a model: how they are run, what they are told, and how what they print is read.

Each is a data file beside this module or of the operator's own (docs/agents.md). The controller and the drafters run
them; neither knows the name of any.
"""
