"""The planner's doors over HTTP: each checks, translates, calls the store and answers; none decides."""
