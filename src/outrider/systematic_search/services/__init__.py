"""Boolean queries over scholarly services.

Each query is translated to the service's language, read to the last hit, and checked again by our evaluator.
"""
