"""Logins of other projects' clients, with right and with wrong credentials.

- `table` lists each protocol and mechanism, with the credentials that are tried.
- `node` starts a broker with a listener for each of them, and makes the credentials.
- `play` lets the clients log in, and compares what they say with `expected.json`, which was recorded with
  Apache Kafka.
- `document` writes docs/login-errors.md from `expected.json`.

`python -m compat.logins` runs only this part of the suite.
"""
