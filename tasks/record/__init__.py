"""The record of a plan read again: what its log says is folded, compared, and put under other rules."""
