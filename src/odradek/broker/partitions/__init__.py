"""The replicas of partitions on this broker: append, read, wait, and open and close them."""
