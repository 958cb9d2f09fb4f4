"""The machine: Celery, Redis, the command line, Sentry, the clock and the environment."""
