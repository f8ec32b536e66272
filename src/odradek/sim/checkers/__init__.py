"""Rules that must hold, checked after a run against recorded histories; checkers know nothing of the node's code."""
