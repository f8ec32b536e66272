"""The APIs that a controller serves on its listeners: one module per API.

An API that the active controller executes has three functions: `handle` receives the request, `execute` translates it
into a command and the command's result into a response, and `build_error_response` builds the response to a request
that fails as a whole.
"""
