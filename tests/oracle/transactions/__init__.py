"""Histories of transactions, sent to Apache Kafka and to Odradek, whose responses are compared."""
