"""GitHub: search, repository details and their parsers"""
