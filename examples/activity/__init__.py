"""Actions of visitors become sessions, counts, a funnel and a table. See README.md."""
