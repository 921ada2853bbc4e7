"""A schema registry in the test: the part of Confluent's REST API that our client uses."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class RegistryServer:
    """Schemas by id, and the ids of the versions of subjects."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.guids: dict[str, int] = {}
        self.requests: list[str] = []
        self.failures: list[int] = []
        """The codes of the next responses."""
        self.credentials: str | None = None
        self.incompatible = False
        self.gate: threading.Event | None = None
        """What each request waits for, after it has been noted."""
        self.url = ""

    def add(self, subject: str, schema: str, **more: Any) -> int:
        body = {"schema": schema, **more}
        known = [each for each, found in self.schemas.items() if found == body]
        number = known[0] if known else len(self.schemas) + 1
        self.schemas[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/subjects":
            return 200, sorted(self.subjects)
        if found := re.fullmatch(r"/schemas/ids/(\d+)(\?.*)?", path):
            number = int(found[1])
            if number not in self.schemas:
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, self.shown(number, found[2])
        if found := re.fullmatch(r"/schemas/guids/([-0-9a-f]+)", path):
            number = self.guids.get(found[1], 0)
            if not number:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, self.shown(number, None)
        found = re.fullmatch(r"/subjects/([^/?]+)(?:/versions(?:/(\w+))?)?(\?.*)?", path)
        assert found is not None, path
        subject = unquote(found[1])
        if method == "POST" and path.partition("?")[0].endswith("/versions"):
            if self.incompatible:
                return 409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE"}
            return 200, {"id": self.add(subject, **body)}
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        versions = self.subjects[subject]
        if method == "POST":
            ids = [each for each in versions if self.schemas[each] == body]
            if not ids:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, {
                "id": ids[0],
                "subject": subject,
                "version": versions.index(ids[0]) + 1,
                **body,
            }
        number = versions[-1] if found[2] == "latest" else versions[int(found[2]) - 1]
        return 200, {"id": number, "subject": subject, **self.shown(number, found[3])}

    def shown(self, number: int, query: str | None) -> dict[str, Any]:
        shown = dict(self.schemas[number])
        serialized = shown.pop("serialized", None)
        if query == "?format=serialized" and serialized is not None:
            shown["schema"] = serialized
        return shown


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            registry.requests.append(f"{self.command} {self.path}")
            if registry.gate is not None:
                assert registry.gate.wait(60), "nobody has opened the gate"
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            given = self.headers.get("Authorization", "")
            if registry.failures:
                code, content = registry.failures.pop(0), {"message": "planted"}
            elif registry.credentials is not None and given not in {
                f"Basic {base64.b64encode(registry.credentials.encode()).decode()}",
                f"Bearer {registry.credentials}",
            }:
                code, content = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                code, content = registry.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = handle_request  # noqa: N815  (the names of http.server)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
