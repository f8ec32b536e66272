"""What a broker answers to clients. The file's name is the API's."""
