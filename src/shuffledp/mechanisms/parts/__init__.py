"""What mechanisms are assembled from: values, laws, wires, readings."""
