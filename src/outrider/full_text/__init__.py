"""Open full texts of works: where they are, whether they may be read, and reading them"""
