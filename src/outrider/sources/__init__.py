"""Sources of a search: the library and web services, behind one protocol"""
