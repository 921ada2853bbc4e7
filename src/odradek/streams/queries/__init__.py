"""Interactive queries: reads of the stores of an application that runs.

- `local` reads the stores of this process; a key belongs to a partition, and a partition to a task.
- `service` answers over HTTP (`application.server`), and sends on what other processes have.
- `client` asks such a process; `json_forms` has keys and values as JSON.
"""
