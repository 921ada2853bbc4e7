"""What the coordinators' machines (group, transaction) have in common.

A machine is asked something, looks at its state and answers with a `CoordinatorResult`: records
that make the decision durable, and a response that is true once they are committed. State that
survives a restart is changed by `replay(record)` only, at the moment of the append and again
when the log is loaded. A timer that runs out is one more question; it too returns records.

- `record`: `CoordinatorRecord`, and its bytes in the log;
- `result`: `CoordinatorResult`;
- `journal`: `Journal`, which takes changes back when their records could not be written;
- `timers`: `TimerTable`: what is due when; nobody waits in it;
- `machine`: `CoordinatorMachine`, the face that a machine shows the runtime;
- `placement`: which partition, and so which broker, coordinates a key.

The runtime that appends, loads and waits is `odradek.broker.coordinator`. The shape is that of
Apache Kafka's `CoordinatorRuntime`.
"""
