"""The quorum that keeps the metadata log: so far a quorum of one. Pure: files and time are its host's."""
