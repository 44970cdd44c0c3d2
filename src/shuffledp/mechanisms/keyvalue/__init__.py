"""Key–value mechanisms: every user holds keys with a number each."""
