"""Settings that only Odradek has."""

SETTINGS = """
[honoured]
odradek.metrics.host  string  = 127.0.0.1  medium
    Address at which metrics are served to Prometheus over HTTP.
odradek.metrics.port  int  = -1  -1..65535  medium
    Port at which metrics are served under /metrics. 0 means any free port, and -1 disables metrics.
odradek.metrics.names  string  = total  {total,persec,jmx}  medium
    Names of the metrics: as in the examples of the JMX exporter and in Strimzi (total), as in Confluent's monitoring stacks (persec), or as by the JMX exporter without rules (jmx).
odradek.log.level  string  = info  any-case{debug,info,warning,error}  low
    Log level of the node.
odradek.log.format  string  = text  {text,json}  low
    Format of log lines: text, or a JSON object per line.
odradek.shutdown.timeout.ms  int  = 5000  >=0  low
    Maximum time that a stopping node waits for open requests.
"""
