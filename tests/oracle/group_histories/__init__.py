"""Histories of groups, sent to Apache Kafka and to Odradek, whose responses are compared."""
