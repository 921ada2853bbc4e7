"""The node's metrics, by Apache Kafka's MBeans.

`sections` lists the sections of metrics: functions that read the parts of the node (`sources`) and
yield metrics. Nothing here is imported before somebody reads metrics, except what counts elections.
"""
