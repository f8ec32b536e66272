"""Request handling that brokers and controllers share."""
