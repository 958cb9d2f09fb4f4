"""The kinds of goal: what a goal of each brings, what its drafters and people answer, and the document of its plan."""
