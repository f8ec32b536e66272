"""The wire without sockets: frames, headers, version negotiation, and the codecs of every message."""
