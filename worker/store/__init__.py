"""The only place that speaks Redis for plans.

Keys, the function libraries, and the verbs of the engine.
"""
