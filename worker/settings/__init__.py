"""The settings `PLANNER_*` of operators: their types, secrets, and files of tools and issuers."""
