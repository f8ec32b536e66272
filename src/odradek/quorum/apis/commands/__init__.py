"""Requests to the active controller: one module per API.

Each turns a request into commands, `handle(request, messages, controller, now)`, and gives a decision whose response
waits for its records. `refuse(request, messages, error)` is the answer when the request fails as a whole.
"""
