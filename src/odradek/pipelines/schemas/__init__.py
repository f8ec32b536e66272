"""Records that a schema describes: Avro, Protobuf and JSON, in the framing of schema registries or without it.

Whoever shows records and whoever makes rows of them reads them here. It knows nothing of either.
"""
