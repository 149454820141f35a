"""The fine scorer: a model judges how well each work answers."""
