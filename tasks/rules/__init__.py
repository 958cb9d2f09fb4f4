"""Rules for every plan of any kind: validation, risk, budgets, and the interface of strategies."""
