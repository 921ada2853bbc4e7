"""What a program has declared, before it becomes a topology."""
