"""A reranker of one's own: a small cross-encoder, fine-tuned on pairs that the library itself provides.

Read in this order: `questions` (a query and the records that answer it), `gather` (questions from a library), `groups` (questions
with texts to tell apart), `loop` (the training), `train` (all of it, from a library to a folder).
"""
