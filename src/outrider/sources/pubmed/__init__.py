"""PubMed: search and the parser of its articles"""
