"""Exact sampling, packed bits and bytes, hashes and their decoders: numerical code without privacy notions."""
