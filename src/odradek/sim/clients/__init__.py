"""Clients of a simulated cluster: they use the real wire protocol and record every request and response."""
