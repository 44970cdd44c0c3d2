"""The numerical engine: floats, ball arithmetic and arrays, without privacy notions."""
