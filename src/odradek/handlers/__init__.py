"""The served APIs. Each file `kNN_name.py` serves one API key (see `handler`)."""
