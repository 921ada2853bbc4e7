"""Listeners, connections, and limits of requests."""

SETTINGS = """
[honoured]
listeners  list  = PLAINTEXT://:9092  distinct  non-empty  high  per-broker
    The listeners: NAME://host:port, ... An empty host means every address of the machine.
advertised.listeners  list  distinct  non-empty  high
    The addresses that clients and other nodes use, by default the addresses in `listeners`. An empty host means the name of the machine. Without this setting, clients of a listener on all addresses are told the address that they have dialled, and other nodes the name of the machine.
listener.security.protocol.map  string  = SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  low  per-broker
    The security protocol of each listener name: NAME:PROTOCOL, ...
controller.listener.names  list  required  distinct  non-empty  high
    The names of the controller listeners. The first name is used to connect to other controllers.
socket.send.buffer.bytes  int  = 102400  high
    Send buffer of a connection's socket (SO_SNDBUF). -1 means the system's default.
socket.receive.buffer.bytes  int  = 102400  high
    Receive buffer of a connection's socket (SO_RCVBUF). -1 means the system's default.
socket.listen.backlog.size  int  = 50  >=1  medium
    Number of connections that may wait to be accepted on a listener.
socket.request.max.bytes  int  = 104857600  >=1  high
    Maximum size of a request. A connection with a larger request is closed.
connections.max.idle.ms  long  = 600000  medium
    A connection without traffic for this long is closed. A negative value means never.
max.connections  int  = 2147483647  >=0  medium  cluster-wide
    Maximum number of connections on this node. Further connections wait.
max.connections.per.ip  int  = 2147483647  >=0  medium  cluster-wide
    Maximum number of connections from one address.
max.connections.per.ip.overrides  string  = ""  medium  cluster-wide
    Exceptions from `max.connections.per.ip`: address:count, ...
fetch.max.bytes  int  = 57671680  >=1024  medium
    Maximum size of a fetch response, regardless of the client's limit.
message.max.bytes  int  = 1048588  >=0  high  cluster-wide
    Maximum size of a record batch, unless a topic sets it.
max.decompressed.message.bytes  int  = 2147483639  1..2147483639  medium  cluster-wide
    Maximum size of a record of a compressed batch, after decompression, unless a topic sets it.
max.request.partition.size.limit  int  = 2000  >=1  medium
    Maximum number of partitions in a response to DescribeTopicPartitions.
max.incremental.fetch.session.cache.slots  int  = 1000  >=0  medium
    Maximum number of fetch sessions.
connection.failed.authentication.delay.ms  int  = 100  >=0  low
    Delay of the response to a failed authentication, and of the end of its connection.
request.timeout.ms  int  = 30000  high
    How long a request to another node may take.

[accepted: one event loop per node serves all requests; several nodes can use several cores]
num.network.threads  int  = 3  >=1  high  cluster-wide
    Threads that read requests and write responses.
num.io.threads  int  = 8  >=1  high  cluster-wide
    Threads that process requests.
queued.max.requests  int  = 500  >=1  high
    Number of requests that may wait for a thread. Then no more requests are read.
background.threads  int  = 10  >=1  high  cluster-wide
    Threads for background tasks.

[unsupported: each connection has its own limit, but all together have none; limit socket.request.max.bytes and max.connections.per.ip]
queued.max.request.bytes  long  = -1  medium
    Total size of requests that may wait. Then no more requests are read. -1 means no limit.

[accepted: waiting operations are removed when they end, so nothing has to be purged]
fetch.purgatory.purge.interval.requests  int  = 1000  medium
    Number of completed fetches in the purgatory before it is purged.
producer.purgatory.purge.interval.requests  int  = 1000  medium
    Number of completed produce requests in the purgatory before it is purged.
delete.records.purgatory.purge.interval.requests  int  = 1  medium
    Number of completed deletions in the purgatory before it is purged.
share.fetch.purgatory.purge.interval.requests  int  = 1000  medium
    Number of completed share fetches in the purgatory before it is purged.

[accepted: listeners of controllers open before the node joins the quorum, others when it is ready]
early.start.listeners  list  distinct  high
    Listeners that open before the node is fully started.

[honoured]
max.connection.creation.rate  int  = 2147483647  >=0  medium  cluster-wide
    Maximum number of new connections per second on this node. Further connections wait.
unstable.api.versions.enable  boolean  = false  high  internal
    Also serve API versions that may still change, such as version 6 of InitProducerId.

[honoured]
inter.broker.listener.name  string  medium
    The listener that brokers use among themselves.

[accepted: connections to other nodes have the timeouts of the requests that are sent on them]
socket.connection.setup.timeout.ms  long  = 10000  medium
    Timeout of the first attempt to connect to another node.
socket.connection.setup.timeout.max.ms  long  = 30000  medium
    Maximum timeout of an attempt to connect to another node, after repeated failures.
controller.socket.timeout.ms  int  = 30000  medium
    Timeout of the socket to the controller.
"""
