"""What outcomes do to a plan: lifecycle, graph, validation, budget."""
