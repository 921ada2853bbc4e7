"""The state machines of the client. They perform no IO, and get the time as an argument.

- `asks` is how machines send requests and hear of the outcome; `routes` has metadata and coordinators.
- `producer` decides which batches are sent when. `accumulator` collects their records, `record_encoder`
  encodes them, `partition_queue` has the order and the sequence numbers of a partition.
- `producer_answers` and `transaction_errors` have the meaning of errors.
- `transaction` begins and ends transactions, with the requests of `transaction_requests`.

`odradek.client.shell.driver` performs what they ask for.
"""
