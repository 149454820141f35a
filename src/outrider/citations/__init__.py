"""Citations: their graph, and the works behind references without an identifier"""
