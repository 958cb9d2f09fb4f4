"""The requests of commands and controllers to a planner, over Redis or over HTTP."""
