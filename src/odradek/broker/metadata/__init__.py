"""The committed metadata of a node.

`loader` follows the metadata log and publishes each image; `publisher` notifies the publishers;
`cache` is read by handlers; `snapshot_generator` decides when snapshots are written.
"""
