"""Settings: their definitions, the parsing of their values, and the sources of values.

`definitions/` lists every setting of Apache Kafka 4.3 and of Odradek as text. `definition` parses
this text, and `registry` finds a setting by name. `load` makes a `BrokerConfig` from a
server.properties file and overrides. `layers` has the precedence of static and dynamic values.
`topic_config` and `group_config` have the typed settings of a topic and of a group. `describe`
makes the responses to DescribeConfigs, and `alter` checks the changes of AlterConfigs. `python -m
odradek.config.document` writes docs/configuration.md.
"""
