"""The only place that speaks Redis for plans: keys, the function library, and the verbs of the engine."""
