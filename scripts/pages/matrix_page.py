def write(staged): pass
