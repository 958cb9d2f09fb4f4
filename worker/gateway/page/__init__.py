"""The page of the gateway: HTML for people, made here of the same queries and behind the same keys as `/v1`."""
