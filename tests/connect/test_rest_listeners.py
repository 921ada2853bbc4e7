"""The listeners of the REST API: HTTPS, several addresses, those of administration, headers, and CORS."""

from __future__ import annotations

import email.utils
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from tests.connect.distributed_lab import settings, until
from tests.connect.lab import Lab
from tests.tls.conftest import Authority

from odradek.cli.main import root
from odradek.connect.distributed import DistributedWorker
from odradek.connect.http_headers import parse_rules
from odradek.connect.listeners import parse_address
from odradek.connect.registry import installed_plugins
from odradek.connectors.own import OWN
from odradek.core.connect.errors import ConfigError
from odradek.testing import Broker

UI = "http://ui.example.org"
NOT_FOUND = b'{"error_code":404,"message":"HTTP 404 Not Found"}'


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def listed(value: str) -> set[str]:
    return {each.strip() for each in value.split(",")}


def test_headers_origins_and_admin_listeners_are_those_of_apache_kafka(
    bootstrap: str, tmp_path: Path
) -> None:
    """The expected answers were given by Apache Kafka 4.3."""
    more = {
        "access.control.allow.origin": f"{UI},http://*.b.org",
        "response.http.headers.config": (
            'add Cache-Control: no-cache, "set X-One: a, b", setDate X-Date: 31536000000, '
            "set X-Two: one, add X-Two: two"
        ),
        "admin.listeners": "http://127.0.0.1:0",
    }
    asks = {"Access-Control-Request-Method": "PUT"}
    with Lab(bootstrap, tmp_path, **more) as lab:
        main_url = f"http://127.0.0.1:{lab.worker.port}"
        admin_url = f"http://127.0.0.1:{lab.worker.admin_ports[0]}"
        with httpx.Client(base_url=main_url) as rest, httpx.Client(base_url=admin_url) as admin:
            got = rest.get("/connectors")
            assert got.headers["Vary"] == "Origin"
            assert "Access-Control-Allow-Origin" not in got.headers
            assert got.headers["Cache-Control"] == "no-cache"
            assert got.headers["X-One"] == "a, b"
            assert got.headers.get_list("X-Two") == ["one", "two"]
            later = email.utils.parsedate_to_datetime(got.headers["X-Date"]).timestamp()
            assert later > time.time() + 31_000_000
            for path, status in (("/connectors", 200), ("/x", 404), ("/connectors/x", 404)):
                got = rest.get(path, headers={"Origin": UI})
                assert (got.status_code, got.headers["Access-Control-Allow-Origin"]) == (status, UI)
            for origin in ("http://x.b.org", "http://evil.org"):
                got = rest.options("/connectors", headers={"Origin": origin, **asks})
                assert got.status_code == 200
                assert "Access-Control-Allow-Origin" not in got.headers
            got = rest.options("/connectors", headers={"Origin": UI, **asks})
            assert got.headers["Access-Control-Allow-Origin"] == UI
            assert listed(got.headers["Access-Control-Allow-Methods"]) == {"GET", "POST", "HEAD"}
            assert got.headers["Access-Control-Allow-Headers"] == "Content-Type"
            assert got.headers["Access-Control-Max-Age"] == "60"
            assert got.headers["Content-Type"].partition(";")[0] == "text/plain"
            assert listed(got.headers["Allow"]) == {"HEAD", "POST", "GET", "OPTIONS"}
            assert listed(got.text) == listed(got.headers["Allow"])
            got = rest.options("/connectors", headers={"Origin": UI})
            assert "Access-Control-Allow-Methods" not in got.headers
            got = rest.head("/connectors")
            assert (got.status_code, got.headers["Content-Length"], got.content) == (200, "2", b"")
            assert rest.get("/admin/loggers").content == NOT_FOUND
            got = admin.get("/admin/loggers/root", headers={"Origin": UI})
            assert (got.status_code, "Vary" in got.headers) == (200, False)
            for path in ("/", "/connectors", "/health"):
                assert admin.get(path).content == NOT_FOUND


def test_administration_can_be_off_and_any_origin_allowed(bootstrap: str, tmp_path: Path) -> None:
    more = {
        "access.control.allow.origin": "*",
        "access.control.allow.methods": "GET,PUT,DELETE",
        "admin.listeners": "",
        "listeners": "http://127.0.0.1:0,http://127.0.0.1:0",
    }
    with Lab(bootstrap, tmp_path, **more) as lab:
        assert lab.worker.admin_ports == []
        for port in lab.worker.ports:
            url = f"http://127.0.0.1:{port}"
            asks = {"Origin": UI, "Access-Control-Request-Method": "POST"}
            got = httpx.options(f"{url}/connectors", headers=asks)
            assert got.headers["Access-Control-Allow-Origin"] == UI
            assert listed(got.headers["Access-Control-Allow-Methods"]) == {"GET", "PUT", "DELETE"}
            assert httpx.get(f"{url}/admin/loggers").content == NOT_FOUND


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("add", "Invalid format of header config 'add'."),
        ("put X: y", "Invalid header config action: 'put'."),
        ("set X", "Invalid format of header name and header value pair 'X'."),
        ("set X y: z", "Invalid header name 'X y'."),
        ("setDate X: soon", "the value is a number of ms"),
    ],
)
def test_wrong_rules_for_headers(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["localhost:8083", "http://localhost", "ftp://localhost:1"])
def test_wrong_listeners(text: str) -> None:
    with pytest.raises(ConfigError, match="Listener"):
        parse_address(text)
    assert parse_address("HTTPS://[::1]:8443").host == "::1"


def test_workers_and_commands_use_https_with_certificates(bootstrap: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    key, client = authority.issue("/CN=worker"), authority.issue("/CN=client")
    given = settings(
        bootstrap,
        "secure-group",
        **{
            "listeners": "https://127.0.0.1:0",
            "listeners.https.ssl.keystore.type": "PEM",
            "listeners.https.ssl.keystore.location": key,
            "listeners.https.ssl.truststore.type": "PEM",
            "listeners.https.ssl.truststore.location": authority.certificate,
            "listeners.https.ssl.client.auth": "required",
            "rest.basic.auth.users": "anna:secret",
        },
    )
    workers = [DistributedWorker(given, installed_plugins(*OWN)) for _ in range(2)]
    trusted = ssl.create_default_context(cafile=authority.certificate)
    url = f"https://127.0.0.1:{workers[0].port}"
    try:
        for each in workers:
            each.start()
        with pytest.raises(httpx.TransportError):
            httpx.get(url, verify=trusted, auth=("anna", "secret"))
        trusted.load_cert_chain(client)
        assert httpx.get(url, verify=trusted).status_code == 401

        def get(worker: DistributedWorker, path: str) -> httpx.Response:
            asked = f"https://127.0.0.1:{worker.port}{path}"
            return httpx.get(asked, verify=trusted, auth=("anna", "secret"), timeout=60)

        for each in workers:
            until(lambda w=each: get(w, "/health").status_code == 200)
        options = [
            "--ca",
            str(authority.certificate),
            "--cert",
            str(client),
            "--user",
            "anna:secret",
        ]
        runner = CliRunner()
        for number, each in enumerate(
            workers
        ):  # one of the two passes the request on to the leader
            file = tmp_path / f"{number}.json"
            config = {"connector.class": "FileStreamSource", "file": str(key), "topic": "secure"}
            file.write_text(json.dumps({"name": f"reader-{number}", "config": config}))
            url = f"https://127.0.0.1:{each.port}"
            made = runner.invoke(root, ["connect", "apply", str(file), "--url", url, *options])
            assert made.exit_code == 0, made.output
        names = ["reader-0", "reader-1"]
        for each in workers:
            until(lambda w=each: sorted(get(w, "/connectors").json()) == names)
            for name in names:  # the tasks of one of them are sent by another worker, signed
                path = f"/connectors/{name}/tasks/0/status"
                until(lambda w=each, p=path: get(w, p).json().get("state") == "RUNNING")
        refused = runner.invoke(
            root, ["connect", "ls", "--url", url, "--ca", str(authority.certificate)]
        )
        assert refused.exit_code == 1
    finally:
        for each in workers:
            each.stop()
