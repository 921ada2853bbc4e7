"""Apache Kafka and Odradek alternately serve one data directory. Nothing stored may be lost."""
