"""Turns goals into steps: the strategy of each kind of goal, and the drafting that all kinds share."""
