"""The lab: brokers, Java programs and drivers as processes on loopback.

Shared by `compat`, `bench` and the tests. This package has no checks; it starts processes,
communicates with them, measures them and stops them.

`toolchain` finds installed toolchains, `maven` fetches jars, `java` compiles and runs programs over
them, `broker` is a broker process (`apache_kafka` or `odradek_node`), `dialogue` communicates with
a program by lines of JSON, `wire_client` sends single requests to a broker.
"""
