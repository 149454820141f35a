"""Boolean queries over the services of the world: said in each one's language, read to the last hit, judged again by our evaluator."""
