"""Our own client in the programs that Apache Kafka's system tests run.

`python -m compat.verifiable producer|consumer|share-consumer|copier` takes the arguments of Kafka's
`VerifiableProducer`, `VerifiableConsumer`, `VerifiableShareConsumer` and `TransactionalMessageCopier`, and
prints the same events, one object of JSON a line. SIGTERM ends a program in order.
"""
