"""Plans that a model or an agent drafted outside of the planner: their words are cleaned, their steps governed.

Nothing here knows a particular kind of goal. The input is untrusted and of any shape. The output passes the validator,
or there are errors with the reasons.
"""
