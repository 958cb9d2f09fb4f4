"""One module for each group of endpoints; worker/gateway/app.py puts them together."""
