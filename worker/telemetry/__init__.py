"""The telemetry of a worker: logs, outages, and a status file."""
