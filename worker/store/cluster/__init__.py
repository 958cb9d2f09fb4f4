"""A client of a cluster of servers, for URLs of worker/settings/cluster.py. No other URL imports it.

redis-py's own client repeats commands by itself, which could apply one twice, and has no read that waits for streams
of several slots.
"""
