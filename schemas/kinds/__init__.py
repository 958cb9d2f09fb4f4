"""The kinds of goal: the input of each, the answers of its drafters and people, and the document of its plan."""
