"""The quorum that keeps the metadata log. Pure: files, sockets and time are its host's."""
