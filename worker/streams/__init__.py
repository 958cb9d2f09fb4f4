"""The planner's side of the inbound streams: reading, decoding, dead-lettering, and the release of claims."""
