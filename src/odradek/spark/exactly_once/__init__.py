"""Exactly once from Spark into topics: the protocol of decision 0027, without I/O.

Drivers and tasks are generators: they yield requests and are sent the answers, or have failures thrown into them.
Whoever runs them may stop at any yield, which is what a crash is.
"""
