"""Settings: their definitions, the parsing of their values, and the sources of values.

`definitions/` lists every setting of Apache Kafka 4.3 and of Odradek as text, which `definition`
parses and `registry` looks up. `load` turns a server.properties file and overrides into a
`BrokerConfig`; `layers` ranks static and dynamic values; `topic_config` and `group_config` are the
views of one topic and one group. `describe` serves DescribeConfigs, `alter` checks the changes of
AlterConfigs. `python -m odradek.config.document` writes docs/configuration.md.
"""
