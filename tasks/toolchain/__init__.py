"""The tools that verify a step: contracts, catalogue, languages, and how their output is read."""
