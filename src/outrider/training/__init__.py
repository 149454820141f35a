"""Training of rerankers and distillers from a library, and evaluation of rerankers.

Read in this order: `questions` (a query and the records that answer it, collected from a library),
`training_set` (questions with texts to rank), `training_loop`, `train_reranker` (the whole process, from a library to a folder).
"""
