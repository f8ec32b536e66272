"""Sends the same requests to both brokers and compares the responses."""
