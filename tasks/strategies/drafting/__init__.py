"""Plans that were drafted outside the planner, by a model or an agent: their words made fit, their steps governed.

Nothing in here knows one kind of goal. What comes in is untrusted and of any shape; what comes out passes the
validator, or there are errors that say why it cannot.
"""
