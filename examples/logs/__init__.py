"""Log files of this machine become a lake of Parquet files that can be searched. See README.md."""
