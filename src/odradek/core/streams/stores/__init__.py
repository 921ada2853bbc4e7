"""State stores of tasks, and their changelogs."""
