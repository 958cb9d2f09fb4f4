"""What commands and controllers ask of a planner, by Redis or over HTTP."""
