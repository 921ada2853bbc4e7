"""The committed metadata as a node sees it.

`loader` follows the metadata log and publishes each image; `publisher` calls those who act on it;
`cache` is what handlers read; `snapshot_generator` decides when snapshots are written.
"""
