"""How a goal becomes steps: strategies, templates and the tool catalogue."""
