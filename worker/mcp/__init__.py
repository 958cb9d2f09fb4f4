"""The planner for agents that speak MCP: tools and resources, each a thin call of the HTTP doors."""
