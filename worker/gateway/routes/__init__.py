"""One module a door; worker/gateway/app.py puts them together."""
