"""Durable files, PostgreSQL sessions and sorting on disk."""
