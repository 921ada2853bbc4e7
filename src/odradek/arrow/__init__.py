"""Decodes record batches to Arrow columns. The client and the Spark source use it.

It needs pyarrow and numpy, which are extras.
"""
