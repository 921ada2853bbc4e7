"""What nodes and clients are told about a node that listens on all addresses of its machine."""

import socket

import pytest

from odradek.broker.metadata.listener_view import ListenerView
from odradek.config.load import load
from odradek.core.metadata.image import ClusterImage, MetadataImage
from odradek.core.metadata.registrations import BrokerRegistration, Endpoint
from odradek.env.network import SocketNetwork
from odradek.network.peer import Peer
from odradek.node.listeners import BoundListeners

CLUSTER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a.example:9093,2@b.example:9093",
}


class Machine(SocketNetwork):
    def own_host(self):
        return "a.example"


@pytest.fixture
def bound():
    """Binds the listeners of settings."""
    made = []

    def bound(**settings):
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = load({}, given).config
        made.append(BoundListeners(config, Machine()))
        return made[-1], config

    yield bound
    for each in made:
        each.release()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_nodes_are_told_the_name_of_the_machine(bound, host):
    listeners, config = bound(**CLUSTER, listeners=f"PLAINTEXT://{host}:0,CONTROLLER://127.0.0.1:0")
    (endpoint,) = listeners.advertised(config)
    assert endpoint.host == "a.example"
    assert endpoint.port == listeners.broker[0].port > 0


def test_nodes_are_told_the_advertised_address(bound):
    listeners, config = bound(
        **CLUSTER,
        listeners="PLAINTEXT://:0,CONTROLLER://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://proxy.example:1234,CONTROLLER://a.example:9093",
    )
    (endpoint,) = listeners.advertised(config)
    assert (endpoint.host, endpoint.port) == ("proxy.example", 1234)
    assert listeners.own_host == "localhost"


@pytest.mark.parametrize("is_alone", [False, True])
def test_an_advertised_address_without_host_has_the_name_of_the_machine(bound, is_alone):
    """The port is the advertised one, which may be that of a proxy on the machine."""
    others = {} if is_alone else {**CLUSTER, "controller.quorum.voters": "1@a.example:9093"}
    controller = "" if is_alone else ",CONTROLLER://127.0.0.1:0"
    listeners, config = bound(
        **others,
        listeners=f"PLAINTEXT://:0{controller}",
        advertised_listeners="PLAINTEXT://:1234",
    )
    (endpoint,) = listeners.advertised(config)
    assert (endpoint.host, endpoint.port) == ("a.example", 1234)


def test_controllers_are_told_the_bound_port_and_the_name(bound):
    listeners, config = bound(
        **CLUSTER,
        listeners="PLAINTEXT://0.0.0.0:0,CONTROLLER://0.0.0.0:0",
        advertised_listeners="PLAINTEXT://localhost:0",
    )
    (endpoint,) = listeners.advertised_controllers(config)
    assert (endpoint.host, endpoint.port) == ("a.example", listeners.controller[0].port)
    (endpoint,) = listeners.advertised(config)
    assert (endpoint.host, endpoint.port) == ("localhost", listeners.broker[0].port)


def test_an_advertised_address_that_is_set_is_told_as_it_is(bound):
    listeners, config = bound(
        **CLUSTER,
        listeners="PLAINTEXT://:0,CONTROLLER://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://[::]:1234",
    )
    assert listeners.advertised(config)[0].host == "::"


def test_listeners_divide_a_port_between_the_protocols(bound):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
    listeners, _ = bound(
        listeners=f"A://0.0.0.0:{port},B://[::1]:{port}",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
    )
    for each in listeners.broker:
        each.listener.listen(5)
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, port), 5).close()


def test_a_single_node_does_not_look_up_its_name(bound):
    listeners, config = bound(listeners="PLAINTEXT://:0")
    assert listeners.advertised(config)[0].host == "localhost"


@pytest.mark.parametrize(
    ("full_name", "name", "known", "expected"),
    [
        ("a.example", "a", {"a.example"}, "a.example"),
        ("localhost", "a", {"a"}, "a"),
        ("localhost.localdomain", "a", {"a"}, "a"),
        ("a", "a", set(), "localhost"),
    ],
)
def test_the_name_of_the_machine(monkeypatch, full_name, name, known, expected):
    def look_up(host, port):
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return []

    monkeypatch.setattr(socket, "getfqdn", lambda: full_name)
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert SocketNetwork().own_host() == expected


def told(own_listeners, **others):
    """Return what a client is told that has dialled 10.0.0.7:9092. Node 2 is on the same machine."""
    hosts = {1: ("a.example", 9092), 2: ("a.example", 9094), 3: ("b.example", 9092)}
    brokers = {
        number: BrokerRegistration(
            number, 0, bytes(16), {"PLAINTEXT": Endpoint("PLAINTEXT", host, port, 0)}, {}, None, False, False,
            False, (), None,
        )
        for number, (host, port) in hosts.items()
    }  # fmt: skip
    config = load(
        {}, {**CLUSTER, "listeners": f"{own_listeners},CONTROLLER://a.example:9093", **others}
    ).config
    peer = Peer("10.0.0.8", 5, "PLAINTEXT", "10.0.0.7", 9092)
    view = ListenerView(MetadataImage(cluster=ClusterImage(brokers)), config, peer)
    return {number: tuple(view.address(number)) for number in hosts}


def test_clients_are_told_the_address_that_they_have_dialled():
    assert told("PLAINTEXT://:9092") == {
        1: ("10.0.0.7", 9092),
        2: ("10.0.0.7", 9094),
        3: ("b.example", 9092),
    }


@pytest.mark.parametrize("advertised", ["PLAINTEXT://:9092", "PLAINTEXT://[::]:9092"])
def test_clients_are_told_what_is_advertised_even_without_host(advertised):
    """The node registers the name and the port, see above; clients get what is registered."""
    assert told("PLAINTEXT://:9092", **{"advertised.listeners": advertised}) == {
        1: ("a.example", 9092),
        2: ("a.example", 9094),
        3: ("b.example", 9092),
    }


def test_clients_are_told_names_that_are_configured():
    assert told("PLAINTEXT://a.example:9092") == {
        1: ("a.example", 9092),
        2: ("a.example", 9094),
        3: ("b.example", 9092),
    }
