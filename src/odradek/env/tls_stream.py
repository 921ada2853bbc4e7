"""Receives and sends the bytes of a TLS connection after its handshake, with few calls of OpenSSL.

`TlsStream` is the part of `odradek.env.tls.TlsTransport` that runs for every request. It is compiled.

- OpenSSL decrypts whole TLS records of up to 16 KiB. If the caller's buffer is too small for a TLS
  record, the remaining decrypted bytes stay in OpenSSL's memory. The kernel does not report the
  socket as readable because of these bytes. `has_more` tells the caller.
- The end of the bytes that have arrived is an exception of OpenSSL. Most clients wait for a response
  before they send the next request. If so, the stream does not ask for more after a request. It asks
  after some requests again, because a client may begin to send several at once.
- One call of OpenSSL encrypts many TLS records, and sends each of them by itself. `TCP_CORK` lets the
  kernel put them into large packets. If the socket does not accept all records, OpenSSL does not say
  how many it has accepted, and the next call must pass the same bytes again, or more. This is what
  the callers of a `Transport` do.
- Bytes are kept until there are enough for a TLS record, as long as the caller says that more will follow.
  So a small response is one record, although its records are in a file.
- `sendfile` cannot be used, because the bytes are encrypted in this process and not in the kernel.
  `send_file` reads a part of the file into a buffer, which all connections share, and encrypts it.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from odradek.env.file_range import FileRange

RECORD_BYTES_MAX: Final = 16 * 1024
"""The longest record of TLS."""
CALL_BYTES_MAX: Final = 4 * RECORD_BYTES_MAX
"""Maximum number of bytes that are passed to OpenSSL in one call. If the socket is full, they are read
from the file again for the next call. Parts are joined until they have at least this many bytes."""
READ_BYTES_MAX: Final = 4 * CALL_BYTES_MAX
"""Maximum number of bytes read at a time from a file. They should fit into the processor's cache."""
UNASKED_MAX: Final = 7
"""After a request that came alone, OpenSSL is not asked for more after so many other requests."""
LENGTH_BYTES: Final = 4
"""A request begins with its length."""
_CORK: Final[int] = getattr(socket, "TCP_CORK", -1)
"""The socket option of Linux: send only full packets until the option is removed. -1 elsewhere."""

_length: Final = Struct(">i").unpack_from

_Read = Callable[[int, memoryview], int]
"""Reads a record into memory, with a limit in bytes. It may raise SSLEOFError if the peer ends the
connection without TLS's own message."""
_Write = Callable[[memoryview], int]
"""Encrypts bytes and sends them. Returns their number."""


def _reader_and_writer(encrypted: ssl.SSLSocket) -> tuple[_Read, _Write]:
    """Return the functions that read and write.

    The methods of `SSLSocket` would add one or two calls in Python for each record. Python does not
    document the attribute for the object inside, so it may be missing in other versions. It is None if
    the peer has disconnected.
    """
    inner: Any = getattr(encrypted, "_sslobj", None) or encrypted
    return inner.read, inner.write


class TlsStream:
    """The bytes of one connection after its handshake. The methods are those of a `Transport`."""

    __slots__ = (
        "_file_buffer",
        "_is_behind",
        "_is_corked",
        "_kept",
        "_read",
        "_socket",
        "_unasked_left",
        "_write",
        "has_more",
        "is_ended",
    )

    def __init__(self, encrypted: ssl.SSLSocket, file_buffer: memoryview) -> None:
        """`send_file` reads into `file_buffer`, which has `READ_BYTES_MAX` bytes."""
        self._socket = encrypted
        self._read, self._write = _reader_and_writer(encrypted)
        self._file_buffer = file_buffer
        self._unasked_left = 0
        self.is_ended = False
        """Whether the client has ended its direction. The socket may stay open without bytes."""
        self.has_more = False
        """Whether the last call of `recv_into` left something that the socket does not report."""
        self._kept = b""
        """Accepted bytes that will be sent with those that follow; fewer than a record."""
        self._is_corked = False
        """Whether the kernel keeps a packet that is not full."""
        self._is_behind = False
        """Whether the socket did not accept all bytes of the last call."""

    def is_pending(self) -> bool:
        """Return whether there is something to receive that the socket does not report."""
        return self.is_ended or self._socket.pending() > 0

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        """Receive as many records as fit into the buffer, or one request that comes alone.

        Raises:
            BlockingIOError: nothing has arrived.
        """
        view = memoryview(buffer)
        size = len(view)
        received = 0
        read = self._read
        self.has_more = False
        try:
            while received < size:
                count = read(size - received, view[received:] if received else view)
                if not count:
                    self.is_ended = True
                    break
                received += count
                if self._unasked_left and received < size and _is_request(view, received):
                    # OpenSSL does not read ahead, so the socket reports what follows.
                    self._unasked_left -= 1
                    return received
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
            self._unasked_left = UNASKED_MAX if _is_request(view, received) else 0
            return received  # OpenSSL has nothing more
        except ssl.SSLEOFError:
            self.is_ended = True
        self.has_more = self.is_pending()
        return received

    def send(self, view: memoryview, more: bool) -> int:
        """Accept bytes that follow those that are kept; return how many."""
        kept = len(self._kept)
        if not kept:
            return self._accept(view, 0, more)
        joined = memoryview(self._kept + view[: CALL_BYTES_MAX - kept])
        return self._accept(joined, kept, more or len(joined) < kept + len(view))

    def send_parts(self, parts: Sequence[bytes | bytearray | memoryview], more: bool) -> int:
        """Accept the parts; return the number of bytes."""
        if len(parts) == 1:
            return self.send(memoryview(parts[0]), more)
        joined = bytearray()
        for part in parts:
            joined += part
            if len(joined) >= CALL_BYTES_MAX:
                break
        return self.send(memoryview(joined), more)

    def send_file(self, part: FileRange, more: bool) -> int:
        """Accept a range of a file; return the number of bytes."""
        kept = len(self._kept)
        size_max = CALL_BYTES_MAX if self._is_behind else READ_BYTES_MAX
        size = min(part.length, size_max - kept)
        view = self._file_buffer
        view[:kept] = self._kept
        count = os.preadv(part.descriptor, (view[kept : kept + size],), part.position)
        if not count:
            return 0
        return self._accept(view[: kept + count], kept, more or count < part.length)

    def _accept(self, view: memoryview, kept: int, more: bool) -> int:
        """Send `view`, which begins with the bytes that were kept; return how many others are accepted.

        If more bytes follow, keep those that do not fill a record. After a call that the socket did not
        accept, OpenSSL must get the same bytes or more, so then all are passed.
        """
        size = len(view)
        whole = size - size % RECORD_BYTES_MAX if more and not self._is_behind else size
        sent = self._encrypt(view[:whole], more) if whole else 0
        is_complete = sent == whole
        self._kept = bytes(view[whole:]) if is_complete else b""
        return (size if is_complete else sent) - kept

    def _encrypt(self, view: memoryview, more: bool) -> int:
        """Encrypt and send; return the number of bytes accepted.

        Raises:
            BlockingIOError: none.
        """
        size = len(view)
        if (more or size > RECORD_BYTES_MAX) and not self._is_corked:
            self._cork(True)
        sent = 0
        write = self._write
        try:
            while sent < size:
                sent += write(view[sent : sent + CALL_BYTES_MAX])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        finally:
            self._is_behind = sent < size
            if self._is_corked and (self._is_behind or not more):
                self._cork(False)
        return sent

    def _cork(self, corked: bool) -> None:
        if _CORK >= 0:
            self._socket.setsockopt(socket.IPPROTO_TCP, _CORK, corked)
            self._is_corked = corked


def _is_request(view: memoryview, received: int) -> bool:
    """Return whether the received bytes are exactly one request, if they begin with one.

    If they do not, the answer may be wrong. This is harmless, because the socket reports the rest.
    """
    if received < LENGTH_BYTES:
        return False
    (length,) = _length(view)
    return bool(length == received - LENGTH_BYTES)
