"""Citations: the graph that services and full texts report, its candidates, and the chase."""
