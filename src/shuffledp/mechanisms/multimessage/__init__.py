"""Protocols in which users send several messages, dummies among them."""
