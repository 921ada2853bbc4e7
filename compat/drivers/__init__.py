"""One driver per client; the verbs that they share are in README.md beside this file."""
