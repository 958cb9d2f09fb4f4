"""The public contract as documents, made from the models: the output of `planner schemas`."""
