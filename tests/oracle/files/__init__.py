"""One data directory, served by Apache Kafka and by us in turn: what was stored is all there."""
