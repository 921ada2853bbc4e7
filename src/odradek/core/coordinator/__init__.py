"""Common parts of the state machines of the group and transaction coordinators.

An operation of a machine reads its state and returns a `CoordinatorResult`: records that make the
decision durable, and a response that is valid once they are committed. Durable state is changed
only by `replay(record)`, when a record is appended and again when the log is loaded. A timer that
expires is one more operation; it returns records too.

- `record`: `CoordinatorRecord`, and its bytes in the log;
- `result`: `CoordinatorResult`;
- `journal`: `Journal`, which rolls changes back when their records could not be written;
- `timers`: `TimerTable`, deadlines and their operations; it does not wait by itself;
- `machine`: `CoordinatorMachine`, the interface between a machine and the runtime;
- `placement`: which partition, and so which broker, coordinates a key.

The runtime that appends, loads and waits is `odradek.broker.coordinator`. The model is Apache
Kafka's `CoordinatorRuntime`.
"""
