"""The tools that verify a step: contracts, the catalogue, languages, and the readers of their output."""
