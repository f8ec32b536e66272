"""`odradek pipeline`: topics through SQL into tables and topics, as a short YAML file describes it.

Each sink is a streaming query of its own, with its own checkpoint, and writes each row once.
"""
