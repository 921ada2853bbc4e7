"""Listeners, connections, and limits of requests."""

SETTINGS = """
[honoured]
listeners  list  = PLAINTEXT://:9092  distinct  non-empty  high  per-broker
    Where to listen: NAME://host:port, ...; an empty host means every address.
advertised.listeners  list  distinct  non-empty  high
    The addresses that clients use; by default those of `listeners`.
listener.security.protocol.map  string  = SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  low  per-broker
    The security protocol of each listener name: NAME:PROTOCOL, ...
controller.listener.names  list  required  distinct  non-empty  high
    The listener names that serve the controller; the first is used to reach others.
socket.send.buffer.bytes  int  = 102400  high
    Send buffer of a connection's socket (SO_SNDBUF); -1 leaves it to the system.
socket.receive.buffer.bytes  int  = 102400  high
    Receive buffer of a connection's socket (SO_RCVBUF); -1 leaves it to the system.
socket.listen.backlog.size  int  = 50  >=1  medium
    Connections that may wait to be accepted on a listener.
socket.request.max.bytes  int  = 104857600  >=1  high
    The largest request; a connection that announces a longer one is closed.
connections.max.idle.ms  long  = 600000  medium
    A connection without traffic for this long is closed; negative: never.
max.connections  int  = 2147483647  >=0  medium  cluster-wide
    Connections at the same time on this node; further ones wait or are refused.
max.connections.per.ip  int  = 2147483647  >=0  medium  cluster-wide
    Connections at the same time from one address.
max.connections.per.ip.overrides  string  = ""  medium  cluster-wide
    Exceptions from `max.connections.per.ip`: address:count, ...
fetch.max.bytes  int  = 57671680  >=1024  medium
    Maximum size of a fetch response, regardless of the client's limit.
message.max.bytes  int  = 1048588  >=0  high  cluster-wide
    Maximum size of a record batch, unless a topic sets it.
max.request.partition.size.limit  int  = 2000  >=1  medium
    Partitions in one page of DescribeTopicPartitions.
max.incremental.fetch.session.cache.slots  int  = 1000  >=0  medium
    Fetch sessions remembered at the same time.
request.timeout.ms  int  = 30000  high
    How long a request to another node may take.

[accepted: one event loop per node serves all requests; more cores are used by more nodes]
num.network.threads  int  = 3  >=1  high  cluster-wide
    Threads that read requests and write responses.
num.io.threads  int  = 8  >=1  high  cluster-wide
    Threads that process requests.
queued.max.requests  int  = 500  >=1  high
    Requests that may wait for a thread before reading stops.
background.threads  int  = 10  >=1  high  cluster-wide
    Threads for background tasks.

[accepted: a connection is read only while its earlier requests fit in its bounds]
queued.max.request.bytes  long  = -1  medium
    Bytes of requests that may wait before reading stops; -1: no bound.

[accepted: waiting operations are removed when they end, so nothing has to be purged]
fetch.purgatory.purge.interval.requests  int  = 1000  medium
    Waiting fetches that ended before the list of them is purged.
producer.purgatory.purge.interval.requests  int  = 1000  medium
    Waiting produce requests that ended before the list is purged.
delete.records.purgatory.purge.interval.requests  int  = 1  medium
    Waiting deletions that ended before the list is purged.
share.fetch.purgatory.purge.interval.requests  int  = 1000  medium
    Waiting share fetches that ended before the list is purged.

[accepted: all listeners start together, after the logs are loaded]
early.start.listeners  list  distinct  high
    Listeners that open before the node is fully started.

[unsupported: connections are accepted at any rate]
max.connection.creation.rate  int  = 2147483647  >=0  medium  cluster-wide
    New connections per second on this node.

[accepted: there is no authentication that could fail]
connection.failed.authentication.delay.ms  int  = 100  >=0  low
    Pause before a connection is closed whose authentication failed.

unstable.api.versions.enable  boolean  = false  high  internal
    Also serve API versions that may still change: version 6 of InitProducerId.

[accepted: this node opens no connection to others yet]
inter.broker.listener.name  string  medium
    The listener that brokers use among themselves.
socket.connection.setup.timeout.ms  long  = 10000  medium
    How long a connection to another node may take to open, at first.
socket.connection.setup.timeout.max.ms  long  = 30000  medium
    How long a connection to another node may take at most, after repeated failures.
controller.socket.timeout.ms  int  = 30000  medium
    How long the socket to the controller may stay silent.
"""
