"""The kind `gap_report`: its words, its gaps, its actions and its steps."""
