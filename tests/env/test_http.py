"""Documents are fetched within bounds of size and time."""

import contextlib
import re
import socket
import threading

import pytest

from odradek.env.http import FetchError, Limits, Request, fetch, path_of, read_limited

OK = b"HTTP/1.1 200 OK\r\n"


def received(connected):
    """A whole request."""
    data = connected.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int((re.findall(rb"(?i)content-length: (\d+)", head) or [b"0"])[0])
    while len(body) < length:
        body += connected.recv(65536)
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def serving(answer, context=None):
    """A server for one connection; `answer` gets the socket and the request. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                accepted, _ = listener.accept()
                with (
                    accepted
                    if context is None
                    else context.wrap_socket(accepted, server_side=True) as connected
                ):
                    answer(connected, received(connected))

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def fetched(response, **more):
    seen = []

    def answer(connected, request):
        seen.append(request)
        connected.sendall(response)

    with serving(answer) as port:
        found = fetch(Request(f"http://127.0.0.1:{port}/a?b=c", **more))
    return found, seen[0].decode()


def test_a_document():
    found, request = fetched(OK + b"Content-Length: 2\r\n\r\n{}", headers={"X-Own": "1"})
    assert (found.status, found.body) == (200, b"{}")
    assert request.startswith("GET /a?b=c HTTP/1.1\r\n")
    assert "\r\nX-Own: 1\r\n" in request
    assert request.count("Host: 127.0.0.1:") == 1
    assert fetched(OK + b"\r\nto the end")[0].body == b"to the end"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert fetched(OK + chunks)[0].body == b"{}"


def test_a_body():
    found, request = fetched(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", body=b"a=b")
    assert found.status == 401
    assert request.startswith("POST /a?b=c")
    assert request.endswith("\r\n\r\na=b")


def test_a_redirect_is_not_followed():
    found, _ = fetched(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
    assert found.status == 302


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (b"", "closed connection without response"),
        (b"hello\r\n", "hello"),
        (OK + b"Content-Length: 5\r\n\r\n{}", "incomplete|IncompleteRead"),
        (OK + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000, "more than 1000 bytes"),
        (OK + b"\r\n" + b"x" * 1001, "more than 1000 bytes"),
        (OK + b"X: y\r\n" * 200 + b"\r\n", "more than 100 headers"),
        (OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n", "header line"),
    ],
)
def test_responses_that_cannot_be_used(response, problem):
    with pytest.raises(
        FetchError, match=rf"http://127.0.0.1:\d+/a cannot be fetched: .*({problem})"
    ):
        fetched(response, limits=Limits(bytes_max=1000))


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", OK + b"\r\n"])
def test_a_server_that_sends_a_byte_at_a_time(start):
    """The time is for all of the response, so that the server cannot prolong it."""

    def answer(connected, request):
        connected.settimeout(0.01)
        connected.sendall(start)
        while True:
            connected.sendall(b"x")
            try:
                if not connected.recv(1):
                    return
            except TimeoutError:
                pass

    with (
        serving(answer) as port,
        pytest.raises(FetchError, match=r"the response takes too long|timed out"),
    ):
        fetch(Request(f"http://127.0.0.1:{port}/", limits=Limits(read_ms=60)))


def test_no_server():
    with pytest.raises(FetchError, match="Connection refused"):
        fetch(Request("http://127.0.0.1:1/"))
    with pytest.raises(FetchError, match="cannot be fetched"):
        fetch(Request("http://no-such-host.invalid/"))


def test_files(tmp_path):
    file = tmp_path / "a b"
    file.write_bytes(b"x" * 10)
    assert path_of(file.as_uri()) == str(file)
    assert path_of("file:/a%20b") == "/a b"
    assert path_of("https://x/a") is None
    assert read_limited(str(file), 10) == b"x" * 10
    with pytest.raises(FetchError, match="more than 9 bytes"):
        read_limited(str(file), 9)
    with pytest.raises(FetchError, match=r"cannot read .*directory"):
        read_limited(str(tmp_path), 9)
