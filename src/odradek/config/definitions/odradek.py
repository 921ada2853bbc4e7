"""Our own settings, where Kafka has none."""

SETTINGS = """
[honoured]
odradek.metrics.host  string  = 127.0.0.1  medium
    Address at which metrics are served to Prometheus over HTTP.
odradek.metrics.port  int  = -1  -1..65535  medium
    Port at which metrics are served at /metrics; 0 takes a free one, -1 serves none.
odradek.log.level  string  = info  any-case{debug,info,warning,error}  low
    How much the node logs about itself.
odradek.log.format  string  = text  {text,json}  low
    Log lines for people, or one JSON object a line.
odradek.shutdown.timeout.ms  int  = 5000  >=0  low
    How long open requests may take to end when the node is stopped.
"""
