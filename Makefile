# The menu. Meson does the building; `make help` lists what there is.
#
# Debian's own tools are called by their full path, because another python3 or meson may come first in PATH.
# Elsewhere: make MESON=meson PYTHON=python3.
MESON  = /usr/bin/meson
PYTHON = /usr/bin/python3
PREFIX = /usr/local

# Warnings are errors where CI=true is in the environment.
SETUP = $(if $(filter true 1,$(CI)),-Dwerror=true)
SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false

export MESON PYTHON

.PHONY: all help deps run demo test test-install test-upgrade asan lint format docs
.PHONY: bench bench-autoscale bench-gateway bench-held bench-latency bench-pages bench-slow bench-kube bench-kube-requests
.PHONY: soak fuzz install deb image chart manifests release clean
.NOTPARALLEL:

all: build/build.ninja ## build into build/ (the default); the binary is build/smart-router
	@ninja -C build smart-router

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

deps: ## install the Debian packages that are missing, for every target
	@scripts/deps build run test lint bench

run: ## build and serve on http://localhost:8080 with five simulated voice agents, state in ./data
	@scripts/deps build run
	@$(MAKE) --no-print-directory all
	@ninja -C build tools/agent-sim tools/provider-sim tools/talk
	@$(PYTHON) scripts/run-local

demo: ## build; a minute of calls while agents and the router fail, then the figures; DEMO_SLOW=1 for presenting
	@scripts/deps build run
	@$(MAKE) --no-print-directory all
	@ninja -C build tools/agent-sim
	@$(PYTHON) scripts/demo

test: ## build, then run all unit and functional tests
	@scripts/deps build test
	@scripts/with-tests build $(SETUP)
	@scripts/run-tests build

test-install: ## build and try what installs the router: packages, images, manifests
	@scripts/deps build test install
	@scripts/with-tests build $(SETUP)
	@scripts/run-install-tests build

test-upgrade: ## the last release and this version on one Redis, a minute in both orders, and its data; a rolling update. Needs the history of git
	@scripts/deps build test install
	@scripts/with-tests build $(SETUP)
	@scripts/build-version >/dev/null
	@BUILD_DIR=$(CURDIR)/build $(PYTHON) -m pytest -q -p no:cacheprovider test/functional/test_samples.py
	@BUILD_DIR=$(CURDIR)/build UPGRADE_SECONDS=$${UPGRADE_SECONDS:-60} $(PYTHON) -m pytest -q -p no:cacheprovider \
		test/install/test_upgrade.py test/install/test_rolling_update.py

asan: ## the same tests under AddressSanitizer and UBSan, in build-asan/
	@scripts/deps build test
	@scripts/with-tests build-asan $(SETUP) $(SANITIZE)
	@scripts/run-tests build-asan

lint: ## formatting, static analysis of C, shell and Python, our own checks of sources and documents
	@scripts/deps build test lint
	@scripts/with-tests build $(SETUP)
	@scripts/lint build

format: ## format every C file in place
	@find src test tools clients -name '*.[ch]' -exec clang-format -i {} +

docs: all ## write docs/CONFIG.md from the table of settings, docs/METRICS.md from the registry, docs/API.md from the routing table, and the chart's values
	@scripts/deps build test
	@build/smart-router check-config --markdown >docs/CONFIG.md
	@build/smart-router metrics --markdown >docs/METRICS.md
	@$(PYTHON) scripts/api-docs build
	@$(PYTHON) scripts/chart-values

bench: ## compare with nginx and redis-benchmark; prints tables, writes build/bench.json and build/bench-redis.json
	@scripts/deps build bench
	@$(MAKE) --no-print-directory all
	@$(PYTHON) bench/run.py
	@$(PYTHON) bench/redis_store.py

bench-gateway: ## 1,000 calls at once directly, through nginx and through the router; writes build/bench-gateway.json
	@scripts/deps build test bench
	@$(MAKE) --no-print-directory all
	@ninja -C build tools/agent-sim tools/provider-sim
	@$(PYTHON) bench/gateway.py

bench-held: ## 10,000 callers who wait, beside idle connections of nginx and 1,000 calls that are carried; writes build/bench-held.json
	@scripts/deps build test bench
	@$(MAKE) --no-print-directory all
	@ninja -C build tools/agent-sim tools/provider-sim
	@$(PYTHON) bench/held_streams.py

bench-latency: ## latency at a constant arrival rate, and the rate by connections; writes build/bench-latency.json and two plots
	@scripts/deps build bench
	@$(MAKE) --no-print-directory all
	@$(PYTHON) bench/latency.py
	@$(PYTHON) bench/plot.py

bench-autoscale: ## a day of calls with an autoscaler, in simulated time; draws docs/autoscale.svg
	@scripts/with-tests build
	@$(PYTHON) bench/autoscale.py

bench-pages: ## allocations beside a client that fetches /metrics or pages of 1,000 pods without pause; writes build/bench-pages.json
	@scripts/deps build bench
	@$(MAKE) --no-print-directory all
	@$(PYTHON) bench/pages.py

bench-slow: ## 10,000 slow connections for two minutes, beside 64 clients; 10,000 idle ones; floods, of TLS too; writes build/bench-slow.json and more
	@scripts/deps build bench
	@$(MAKE) --no-print-directory all
	@ninja -C build test/tls-flood
	@failed=0; for part in slow_clients idle_clients tls_floods; do $(PYTHON) bench/$$part.py || failed=1; done; exit $$failed

bench-kube: ## 5,000 pods of a real Kubernetes: first sync, memory, an idle minute; writes build/bench-kubernetes.json
	@scripts/deps build test bench
	@$(MAKE) --no-print-directory all
	@scripts/kube-binaries >/dev/null
	@$(PYTHON) bench/kubernetes.py

bench-kube-requests: ## what three idle routers ask of an API server in a minute, with 200 pods; writes build/bench-kube-requests.json
	@scripts/deps build test bench
	@$(MAKE) --no-print-directory all
	@scripts/kube-binaries >/dev/null
	@$(PYTHON) bench/kube_requests.py

soak: ## the long campaigns: 10,000,000 simulated operations, 200 rounds of kill -9, four routers for 10 minutes, over from the first implementation and back, chaos for 10 minutes, 20 replaced ones, 1,000,000 streams
	@scripts/deps build test
	@scripts/with-tests build $(SETUP)
	@scripts/soak build

fuzz: ## every fuzz target for FUZZ_SECONDS (60) under libFuzzer, ASan and UBSan, in build-fuzz/; FUZZ_TARGETS="form http" for some
	@scripts/deps build fuzz
	@scripts/fuzz build-fuzz

install: all ## install below PREFIX (/usr/local), inside DESTDIR if that is set
	@ninja -C build libsmartrouter
	@scripts/install build '$(DESTDIR)' '$(PREFIX)'
	@scripts/install-client build '$(DESTDIR)' '$(PREFIX)'

deb: ## build the Debian packages into dist/
	@scripts/deps build install
	@scripts/deb dist

release: ## gather package, sources, SBOM, chart and image with their checksums in dist/
	@scripts/deps build install
	@scripts/release dist

chart: ## pack the Helm chart into dist/, with the version of the tree
	@scripts/chart

manifests: ## render deploy/kubernetes from the Helm chart; builds helm once, through Go's module proxy
	@scripts/kube-manifests

image: ## build the container images smart-router and smart-router-agent-sim, with podman, buildah or docker
	@scripts/image

clean: ## remove what was built; ./data stays
	@rm -rf build build-asan build-fuzz dist

build/build.ninja:
	@test -x "$$(command -v $(MESON))" || { echo "$(MESON) is missing: run 'make deps' first" >&2; exit 1; }
	@$(MESON) setup build $(SETUP)
