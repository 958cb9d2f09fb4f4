"""The page of the gateway: HTML for people. Its queries, and the rights of its keys, are the same as for `/v1`."""
