"""Decodes Avro, Protobuf and JSON records, with or without the framing of schema registries.

The console and the jobs use it. It depends on neither.
"""
