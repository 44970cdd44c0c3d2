"""What is estimated from whom: one file a task."""
