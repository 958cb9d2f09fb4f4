"""What every plan has to keep to, whatever its kind: validation, risk, budgets, and what a strategy answers."""
