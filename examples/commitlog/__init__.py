"""The changes of a database rebuild its table on another node. See README.md."""
