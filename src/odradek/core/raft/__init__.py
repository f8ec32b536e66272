"""KRaft consensus on the metadata log, as a pure state machine: files, sockets and time belong to its driver."""
