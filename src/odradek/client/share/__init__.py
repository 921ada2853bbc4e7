"""The share consumer (KIP-932): state machines that perform no IO, and the shell that sends.

- `membership` builds heartbeats, and has the member's epoch and assignment.
- `acquired` decodes the records that a member has acquired.
- `acknowledgements` converts acknowledgements to the batches of requests.
- `session` has the epoch and the partitions of the share session with one broker.
- `leader` builds the requests to one broker, and reads the responses.
- `machine` has the leaders, and the records between a poll and their acknowledgement.
- `consumer` sends the requests; `keeper` is a thread that renews locks, if the user asks for it.

The machines get the time in ms as an argument.
"""
