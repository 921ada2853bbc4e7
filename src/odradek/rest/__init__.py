"""How products serve HTTP: Starlette on uvicorn, in a thread.

A `Server` passes each request to a function of the product, in a thread of a pool. It has TLS, basic
authentication and a stop that lets requests end.
"""

from odradek.rest.server import Listener, Reply, Request, Server

__all__ = ["Listener", "Reply", "Request", "Server"]
