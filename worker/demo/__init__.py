"""`planner demo`: a small fleet works on a real repository, one story for each kind of goal."""
