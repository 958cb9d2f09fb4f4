"""Memory of a repository for later plans: its flaky tests, and the results of recorded attempts."""
