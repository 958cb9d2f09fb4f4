"""The public contract as documents, made of the models: what `planner schemas` writes."""
