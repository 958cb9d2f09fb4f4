"""Rules for plans of every kind: validation, risk, budgets, and the interface of strategies."""
