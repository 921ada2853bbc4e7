"""The state machines of the client. They perform no IO, and get the time as an argument.

- `asks` is how machines send requests and hear of the outcome; `routes` has metadata and coordinators.
- `producer` decides which batches are sent when. `accumulator` collects their records, `record_encoder`
  encodes them, `partition_queue` has the order and the sequence numbers of a partition.
- `producer_answers` and `transaction_errors` have the meaning of errors.
- `classic_member`, `consumer_member` (KIP-848) and `streams_member` (KIP-1071) are members of groups, which
  tell their users what is assigned and revoked (`member_events`). All share `group_member`, and the last two
  `heartbeat_member`. `classic_member` knows no protocol type: `member_protocol` says what a protocol is,
  `classic_subscription` is the consumers', with `assignors` and `group_protocol`.
- `commits` commits and fetches the offsets of a group.
- `transaction` begins and ends transactions, with the requests of `transaction_requests`.

`odradek.client.shell.driver` performs what they ask for.
"""
