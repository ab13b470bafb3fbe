# Backstay. `make` lists what there is. Needs python3, make and git; the rest is fetched.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

CACHE := $(or $(BACKSTAY_CACHE),$(HOME)/.cache/backstay)
export PATH := $(PATH):$(CACHE)/tools/bin
RUN := uv run --no-sync
CLUSTER := $(RUN) python -m backstay_cluster
READY := .venv/.ready
CODE := contract operator runtime cli cluster tests tools benchmarks

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Fetch uv if it is missing, and install the workspace into .venv

$(READY): uv.lock pyproject.toml $(wildcard */pyproject.toml)
	@tools/setup.sh "$(CACHE)/tools"
	uv sync --locked --all-packages --inexact
	@touch $@

# ---- the demo

.PHONY: demo
demo: $(READY) ## Tell the whole story on a real Kubernetes: a model, a better version, a bad one that goes back
	$(RUN) python -m tests.e2e.story

.PHONY: demo-clean
demo-clean: $(READY) ## Remove what the demo made, and the node if the demo started it
	$(RUN) python -m tests.e2e.story --clean

# ---- the cluster

.PHONY: cluster-up
cluster-up: $(READY) ## Start a real one-node Kubernetes with storage and monitoring, or repair it
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: $(READY) ## End it and remove all that it left
	$(CLUSTER) down

.PHONY: cluster-status
cluster-status: $(READY) ## Say what of it runs
	$(CLUSTER) status

.PHONY: build
build: $(READY) ## Build the Go programs that are not in the cache, helm too
	$(CLUSTER) build
	$(CLUSTER) build --only helm

.PHONY: images
images: $(READY) ## Build the images of the operator and the runtime
	$(CLUSTER) images

.PHONY: programs
programs: $(READY)
	$(CLUSTER) build --only kube,helm,minio

# ---- tests and checks

.PHONY: test
test: test-unit test-integration ## All tests that need no node
	@echo "The whole story on a real node: make test-e2e"

.PHONY: test-unit
test-unit: $(READY) ## Tests of the parts, and of the architecture
	$(RUN) pytest --numprocesses auto --dist worksteal tests/unit tests/architecture

.PHONY: test-integration
test-integration: programs ## Tests on a real API server, a real object storage and a real helm
	$(RUN) pytest --numprocesses 2 --dist loadfile tests/integration -m "not node and not device"

.PHONY: test-e2e
test-e2e: $(READY) ## Tests on a real node, with real models
	$(RUN) pytest tests/e2e -m "not device"

.PHONY: scenarios
scenarios: programs ## Play each situation of a rollout on a real API server; say what was expected and what was seen
	$(RUN) python -m tests.integration.scenarios

.PHONY: crash-sweep
crash-sweep: programs ## Kill the operator at each of its API writes, and compare the end with the undisturbed one
	$(RUN) python -m tests.integration.crash

.PHONY: cases
cases: $(READY) ## Print every handed trouble beside the tests that keep it away
	$(RUN) python -m tests.cases

.PHONY: faults
faults: programs ## Play every fault on push, pull and cache against a real object storage; a line for each
	$(RUN) python -m tests.integration.storage.faults

.PHONY: check
check: $(READY) ## Lint, types, layers, generated files: what CI checks besides the tests
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy --strict $(wildcard $(CODE))
	$(RUN) lint-imports
	$(RUN) python tools/generate.py --check

.PHONY: format
format: $(READY) ## Put the code into its form
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

.PHONY: generate
generate: $(READY) ## Write the generated files: CRD, reference pages, the rollout's picture, manifests
	$(CLUSTER) build --only helm
	$(RUN) python tools/generate.py

# ---- the engine's accuracy and speed

.PHONY: goldens
goldens: $(READY) ## Replay the reference answers; other files: make goldens GOLDENS=FOLDER
	$(RUN) python tests/goldens/replay.py $(if $(GOLDENS),--goldens "$(GOLDENS)")

.PHONY: bench
bench: programs ## Measure the engine and the pull; peers are installed into the cache
	$(RUN) python -m benchmarks.engine
	$(RUN) python -m benchmarks.storage

.PHONY: soak
soak: $(READY) ## Send 20,000 requests of every kind to a real server and see that it does not grow
	$(RUN) python -m benchmarks.soak

.PHONY: bench-pull
bench-pull: programs ## Measure pull and push beside minio-py, boto3 (KServe's storage initializer) and rclone, one file and eight
	$(CLUSTER) build --only rclone || echo "rclone cannot be built here: it is left out" >&2
	$(RUN) --with boto3 python -m benchmarks.storage
	$(RUN) --with boto3 python -m benchmarks.storage --files 8

.PHONY: bench-load
bench-load: $(READY) ## Measure loading beside safetensors' load_file: seconds, and memory beside the weights
	$(RUN) python -m benchmarks.engine.load

.PHONY: bench-engine
bench-engine: $(READY) ## Measure the engine beside transformers, llama.cpp and vLLM, where they can be installed: ten minutes
	$(RUN) python -m benchmarks.engine

.PHONY: bench-batching
bench-batching: $(READY) ## Measure static, dynamic and continuous batching with weights of 32, 8 and 4 bits: five minutes
	$(RUN) python -m benchmarks.engine.batching

.PHONY: bench-arrivals
bench-arrivals: $(READY) ## The same with requests that arrive by chance, one a second: what their clients see
	$(RUN) python -m benchmarks.engine --rate 1

.PHONY: bench-judge
bench-judge: $(READY) ## Measure the judge beside simpler ones: false alarms and detection, on simulated and recorded soaks
	uv sync --locked --all-packages --inexact --group bench
	$(RUN) python -m benchmarks.judge

.PHONY: bench-scale
bench-scale: programs ## Measure what a thousand resources cost the operator, and how quickly another takes over
	$(RUN) python -m benchmarks.scale

.PHONY: bench-rollout
bench-rollout: programs ## Measure how quickly a rollout goes back, and what clients lose in fifty flips on a real node
	$(RUN) python -m benchmarks.rollout

.PHONY: clean
clean: ## Remove the environment and the tools' caches; the build cache stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
