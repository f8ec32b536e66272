"""The broker: its APIs, its replicas and its coordinators."""
