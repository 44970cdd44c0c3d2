def write(root, staged): pass
