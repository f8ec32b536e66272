"""The vocabulary of the project: value types, error codes and the ports to the outside world."""
