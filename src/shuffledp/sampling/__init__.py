"""Exact draws, packed bits and bytes, hashes and their decoders: how messages are made and read; no privacy nouns."""
