"""Mechanisms whose noise is shared or correlated between users: cancelling noise, split and mix."""
