"""A server of a test, with a thread for each connection."""

from __future__ import annotations

import socket
import threading


class Listening:
    """Accepts connections. Subclasses have `_serve`, which closes the connection that it gets."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connections = []
        self._threads = []

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        self._spawn(self._accept)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Stop listening and drop all connections."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[:1]:  # so that there are no more connections
            thread.join(60)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def drop_connections(self):
        for connection in self._connections:
            shut_down(connection)

    def _spawn(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection):
        raise NotImplementedError


def shut_down(connection):
    """Let both sides know that a connection has ended."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has gone already
