"""The lab: brokers, Java programs and drivers as processes on loopback.

Shared by `compat`, `bench` and the tests. Nothing here decides what is right; it starts things,
talks to them, measures them and ends them.

`toolchain` finds what a machine has, `maven` fetches jars, `java` compiles and runs programs over
them, `broker` is a broker as a process with `apache_kafka` and `odradek_node` as its two kinds,
`dialogue` talks to a program by lines of JSON, `wire_client` sends single requests to a broker.
"""
