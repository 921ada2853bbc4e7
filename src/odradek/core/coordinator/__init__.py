"""Common parts of the state machines of the group coordinator and the transaction coordinator.

An operation of a state machine reads the machine's state and returns a `CoordinatorResult`. The
result has the records that make the decision durable, and a response that is valid when the records
are committed. `replay(record)` changes the durable state. The runtime calls `replay` when an
operation has returned the record, and again when the log is loaded. The members of classic groups
are an exception: operations change them directly. When a timer expires, the runtime calls the
operation of the timer, and writes its records in the same way.

- `record`: `CoordinatorRecord`, and its encoding in the log;
- `result`: `CoordinatorResult`;
- `journal`: `Journal`, which undoes changes when their records could not be written;
- `timers`: `TimerTable`, which stores deadlines and their operations;
- `machine`: `CoordinatorMachine`, the interface between a state machine and the runtime;
- `placement`: the partition of the coordinator's topic to which a key belongs. The leader of this
  partition is the coordinator of the key.

The runtime is `odradek.broker.coordinator`. It appends records, loads logs and waits for deadlines.
The design follows Apache Kafka's `CoordinatorRuntime`.
"""
