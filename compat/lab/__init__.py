"""The lab: brokers, Java programs and drivers as processes on loopback.

`compat`, `bench` and the tests use this package. The package has no checks. It starts processes,
communicates with them, measures them and stops them.

- `toolchain` finds installed toolchains, `pythons` other Pythons. `maven` fetches jars.
- `java` compiles Java sources with these jars, and returns the commands that run classes.
- `broker` is the base class of broker processes (`apache_kafka` and `odradek_node`).
- `dialogue` communicates with a program by lines of JSON.
- `wire_client` sends single requests to a broker.
"""
