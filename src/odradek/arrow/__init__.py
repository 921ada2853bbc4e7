"""Converts record batches to Arrow columns, and the reverse. The client and the Spark source use it.

It needs pyarrow and numpy, which are extras.
"""
