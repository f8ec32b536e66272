"""Which of Kafka's configs this broker honours. The one place to touch when a new one starts to work.

A config that is taken and then ignored misleads whoever wrote it, so each name below is either honoured, or
reserved (it tunes a part of Kafka that is not served yet, so that nobody can see it ignored), or warned about when
somebody sets it. Names, types and defaults are in `kafka_configs.json`.
"""

HONOURED: frozenset[str] = frozenset()
RESERVED: frozenset[str] = frozenset()
