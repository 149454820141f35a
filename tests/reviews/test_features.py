"""Features are those of scikit-learn, wherever they are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.reviews import features
from outrider.reviews.features import _list_terms, make_features
from support.extras import needs
from support.task_map import map_elsewhere

pytestmark = needs("sklearn")
WORDS = st.sampled_from("aspirin liver injury of the naïve 心臓 ﬁbrosis x2 A ẞ Ω𝛼 \ud800 \x00 i̇".split(" "))
TEXTS = st.lists(st.one_of(st.lists(WORDS, max_size=8).map(" ".join), st.text(max_size=20)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.sampled_from([0.3, 0.95, 1.0]))
def test_matrix_and_names_of_scikit_learn(texts: list[str], max_df: float) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=_list_terms, sublinear_tf=True, max_df=max_df if len(texts) >= features.FEW else 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "TEXTS_AT_ONCE", 7)
        found = make_features(texts, max_df, map_elsewhere)
    try:
        expected = vectorizer.fit_transform(texts)
    except ValueError:  # no term is left
        assert found is None
        return
    assert found is not None
    assert [found.name(column) for column in range(found.matrix.shape[1])] == vectorizer.get_feature_names_out().tolist()
    assert found.matrix.shape == expected.shape
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(found.matrix, name), getattr(expected, name)), name
