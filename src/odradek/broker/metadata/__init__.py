"""The metadata as the serving side sees it: a cache that handlers read, and the chain of those
who are told of every change."""
