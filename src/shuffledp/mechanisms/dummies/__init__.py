"""Mechanisms that send several messages per user, some of which are dummies."""
