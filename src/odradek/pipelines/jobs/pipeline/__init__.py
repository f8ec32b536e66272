"""`odradek pipeline`: reads topics, transforms them with SQL or Python, and writes tables and topics, from a YAML file.

Each sink is a streaming query with its own checkpoint, and writes each row exactly once.
"""
