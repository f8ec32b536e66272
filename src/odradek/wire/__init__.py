"""Kafka's protocol without I/O: the table of APIs, frames, headers, codecs, and the client session."""
