"""SASL exchanges, client side and server side, without I/O: messages in, messages out."""
