"""The life of a change after its delivery: a table of states, and the next tasks. Pure."""
