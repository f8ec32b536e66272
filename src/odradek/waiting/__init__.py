"""Requests that wait: for data, for acknowledgements, for time."""
