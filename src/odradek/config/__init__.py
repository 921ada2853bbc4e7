"""Settings: what they are, what their values mean, and where a value comes from.

`definitions/` lists every setting of Apache Kafka 4.3 and our own as text, read by `definition`
and found through `registry`. `load` turns a server.properties file and overrides into a
`BrokerConfig`; `layers` ranks static and dynamic values; `topic_config` and `group_config` are
the views of one topic and one group. `describe` answers DescribeConfigs, `alter` checks what
AlterConfigs asks for. `python -m odradek.config.document` writes docs/configuration.md.
"""
