"""The handlers of the broker's APIs, one module per API."""
