"""Histories of transactions, sent alike to Apache Kafka and to us, and what both answer."""
