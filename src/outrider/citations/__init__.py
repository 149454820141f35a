"""Citations: the graph that services and full texts report, and the works behind references without an identifier"""
