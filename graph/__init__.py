"""The graphs: nodes, routes, and the guard around every node."""
