"""Example pipelines on real data. One command runs each pipeline. Its README describes it."""
