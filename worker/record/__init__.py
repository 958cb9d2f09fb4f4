"""The record of a plan outside of Redis: files of log lines, and signatures of heads."""
