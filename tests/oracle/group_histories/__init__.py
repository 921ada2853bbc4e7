"""Histories of groups, sent alike to Apache Kafka and to us, and what both answer."""
