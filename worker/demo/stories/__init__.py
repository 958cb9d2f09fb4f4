"""One story for each kind of goal: its repository, its goal, what its scripted agent answers, and what is shown."""
