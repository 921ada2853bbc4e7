"""Kafka Connect without IO: data, configuration, converters, transforms, and what a worker decides.

- `data` has schemas and structs, `records` the records of connectors, `api` the classes that a
  connector is made of.
- `config_def` describes and validates configurations; `connector_config` is the part that all
  connectors have, `validation` the answer of Connect's REST API.
- `json_converter`, `converters` and `headers` turn data into bytes and back. `transforms/` changes
  records on the way.
- `config_log` and `status_log` replay the topics of a Connect cluster, `offsets` has the keys of its
  offsets. `group_protocol` and `assignor` distribute the work (KIP-415).
- `herder` decides what a worker starts and stops. `source_task` and `sink_task` decide what a task
  sends and commits.
"""
