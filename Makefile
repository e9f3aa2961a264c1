# Run `make` to list the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Build directory outside the checkout, so that all checkouts share one build of aws-sdk-ec2 (minutes of one core and gigabytes of memory).
export CARGO_TARGET_DIR ?= $(HOME)/.cache/whittle-target
export WHITTLE_TOOLS ?= $(HOME)/.cache/whittle-tools
export PATH := $(WHITTLE_TOOLS)/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0
# Directory with the functions that `sam build` writes for the end-to-end tests.
export WHITTLE_SAM_BUILD := $(CARGO_TARGET_DIR)/sam-build

HOST_TRIPLE := $(shell rustc -vV | sed -n 's/^host: //p')
RELAY_VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
HOST_ARCHITECTURE := $(if $(filter aarch64%,$(HOST_TRIPLE)),arm64,x86_64)

# Features of the released command line, which the tests use too.
WITH_AWS := --features whittle/aws

# cargo-lambda passes the target even if it is the host's, and cargo keeps such builds separate. Everything that is tested
# passes it too, so that tests and functions share one build.
check unit test functions e2e world race local invoke bench bench-cost bench-scale load soak: export CARGO_BUILD_TARGET := $(HOST_TRIPLE)

.PHONY: help demo test check check-packaging docs unit functions e2e control-plane world race local sim bench bench-cost bench-scale load soak bench-scheduling bench-disruption bench-inner-loops fuzz coverage mutants crds package package-lane relay-image release release-cli release-functions release-relay release-sbom release-assemble release-publish release-dry-run lint-workflows invoke sbom advisories rust-target package-tools tools clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Play a story in a simulated account and cluster (STORY=drift plays another, KEEP=1 keeps the cluster running)
	@cargo build --locked -p whittle
	@cargo run --quiet --locked -p whittle -- demo $(STORY) $(if $(KEEP),--keep)

# The last lines of the output are nextest's summary. Missing prerequisites are errors; no test is skipped. Only `make e2e` uses a cluster
# that the environment names.
test: tools check functions ## Install the tools, then run all checks and tests
	cargo test --locked --workspace --doc --quiet
	env -u KUBECONFIG -u KUBEBUILDER_ASSETS cargo nextest run --locked --workspace $(WITH_AWS)

check: tools ## Check formatting, lints, dependency rules and templates
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --all-targets $(WITH_AWS) -- -D warnings
	cargo deny --locked check bans licenses sources
	for apart in bench fuzz mutants; do cargo metadata --locked --format-version 1 --manifest-path $$apart/Cargo.toml > /dev/null; done
	cargo clippy --locked -p scheduling --features inner-loops -- -D warnings
	AWS_DEFAULT_REGION=us-east-1 sam validate --lint --template sam-template.yaml
	infra/tools/check-templates --self-test
	infra/tools/check-templates
	$(MAKE) --no-print-directory check-packaging
	infra/tools/docs $(BOOK)
	@if command -v go > /dev/null; then $(MAKE) --no-print-directory lint-workflows; else echo "go is missing: .github/workflows is not linted"; fi

# Installed with Go, which the CI runners have.
ACTIONLINT ?= v1.7.12
lint-workflows: ## Lint the CI workflows with actionlint (needs Go)
	@command -v go > /dev/null || { echo "make lint-workflows: go is missing: install Go (https://go.dev/doc/install)" >&2; exit 2; }
	@[[ -x $(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT) ]] || { GOBIN=$(WHITTLE_TOOLS)/go go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) \
		&& mkdir -p $(WHITTLE_TOOLS)/bin && mv $(WHITTLE_TOOLS)/go/actionlint $(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT); }
	$(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT) -shellcheck "$$(command -v shellcheck)" .github/workflows/*.yml

# The tests build artifacts from placeholder binaries. Nothing is compiled.
check-packaging: tools ## Test packaging tools, chart, release artifacts, workflows and Terraform modules
	infra/tools/check-packaging

# WHITTLE_REPOSITORY_URL is the repository's page, to which links to files outside docs/ are rewritten.
BOOK ?= $(CARGO_TARGET_DIR)/book
docs: tools ## Build the documentation site and check its links (BOOK=folder)
	infra/tools/docs $(BOOK)

unit: tools ## Test the pure crates only (seconds)
	cargo nextest run --locked

# Debug build with the features of the tests, so that nothing is compiled twice. cargo runs first, because its errors are easier to read
# than SAM's.
functions: tools
	cargo nextest run --locked --workspace $(WITH_AWS) --no-run
	SAM_BUILD_MODE=debug CARGO_LAMBDA_COMPILER=cargo \
	CARGO_LAMBDA_COMPILER_EXTRA_ARGS="--locked --workspace $(WITH_AWS) --lib --bins --tests --examples" \
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD) \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)

e2e: functions ## Run the end-to-end tests with a stack on emulators of AWS (KUBEBUILDER_ASSETS=folder or KUBECONFIG=file for a real API server)
	cargo nextest run --locked --workspace $(WITH_AWS) -E 'binary(e2e) | binary(deployment) | binary(bad_input)'

# Built from the Go modules of Kubernetes and etcd. The first build takes minutes and gigabytes.
KUBERNETES ?= 1.37.2
control-plane: ## Build a Kubernetes control plane for KUBEBUILDER_ASSETS (KUBERNETES=1.37.2)
	infra/tools/control-plane $(KUBERNETES) $(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES)

# Uses a real control plane unless SIMULATED=1. The printed lines set the environment variables for clients.
WORLD ?=
world: functions $(if $(SIMULATED),,control-plane) ## Run the deployed stack with a cluster until interrupted, for any client or test suite (SIMULATED=1, WORLD="--sweep-every 60 --no-relay")
	cargo build --locked --workspace $(WITH_AWS) --bins
	exec env -u KUBECONFIG $(if $(SIMULATED),-u KUBEBUILDER_ASSETS,KUBEBUILDER_ASSETS=$(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES)) \
		$(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/world $(WORLD)

# CPU time is measured for the processes of the functions and the relay.
RACE ?= --pods 1 500
race: functions control-plane ## Measure how fast nodes are launched for pending pods and removed after them, on a new cluster (RACE="--pods 1 500 5000 --after 30s")
	cargo build --locked --workspace $(WITH_AWS) --bins
	env -u KUBECONFIG KUBEBUILDER_ASSETS=$(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES) infra/tools/race \
		--world $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/world \
		--processes '/(relay|provisioner|lifecycle|disruption|terminator|housekeeper|interruption)( |$$)' $(RACE)

# Optimized build of the simulation only, without an AWS SDK. SIM_PROFILE=dev reuses the build of the tests.
SIM_PROFILE ?= sim
sim: ## Run seeds of the simulation (SEEDS=1000 SIM_FIRST=0, or SIM_SEED=… for one; SIM_ALL=true continues after a failure)
	SIM_COMMIT=$$(git rev-parse --short HEAD) cargo run --quiet --locked --profile $(SIM_PROFILE) -p simulation

# The costs of turns are measured without the SDK, the relay's memory with the build of the tests.
bench: tools ## Measure zip sizes and cold start, turns and relay with 500 nodes and 5,000 pods, and the catalog
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD)-release \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)
	infra/tools/bench $(WHITTLE_SAM_BUILD)-release
	cargo bench --quiet --locked -p whittle --bench turns -- 500 5000
	cargo bench --quiet --locked -p whittle --bench catalog -- $(abspath $(or $(wildcard $(CONFORMANCE)/aws),tests/conformance/aws))
	cargo bench --quiet --locked --workspace --profile dev --bench memory -- 500 5000
	cargo bench --quiet --locked --workspace --profile dev --bench lifecycle
	cargo bench --quiet --locked --workspace --profile dev --bench interruption

# The compute time of turns is measured with an optimized build without the SDK, their ledger requests with the build of the tests.
bench-cost: tools ## Print the monthly costs of a stack alone, with a cluster at rest, and with 1,000 nodes (prices: tests/benches/cost/prices.yaml)
	cargo bench --quiet --locked -p whittle --bench turns -- 10 100 > $(CARGO_TARGET_DIR)/turns-few.txt
	cargo bench --quiet --locked -p whittle --bench turns -- 1000 10000 > $(CARGO_TARGET_DIR)/turns-many.txt
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench cost -- $(CARGO_TARGET_DIR)/turns-few.txt $(CARGO_TARGET_DIR)/turns-many.txt

# The cold start is measured with the deployed functions, the relay with its release build.
bench-scale: tools ## Measure turns and the relay with 500, 2,000 and 5,000 nodes, and list missed goals
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD)-release \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)
	infra/tools/bench $(WHITTLE_SAM_BUILD)-release > $(CARGO_TARGET_DIR)/cold-start.txt
	cargo bench --quiet --locked -p relay --bench memory -- 5000 50000 > $(CARGO_TARGET_DIR)/relay.txt
	cargo bench --quiet --locked -p whittle --bench scale -- $(CARGO_TARGET_DIR)/cold-start.txt $(CARGO_TARGET_DIR)/relay.txt

# The deletions use an in-memory table with DynamoDB's limits, the sweep and the turns a local DynamoDB; all use the build of the tests.
CLUSTERS ?= 200
load: tools ## Measure 1,000 simultaneous deletions in each lane, a sweep of CLUSTERS=200 of which a tenth hang, and turns of all clusters woken together
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench many -- $(CLUSTERS)
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench herd -- $(CLUSTERS)

SOAK ?= 24
soak: tools ## Measure the growth of table, queues and memory over SOAK=24 hours of virtual time
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench soak -- $(SOAK)

# Recorded decisions of Karpenter, which are not part of this repository.
CONFORMANCE ?= ../shared/conformance
# Optimized build of the command line only, without an AWS SDK.
bench-scheduling: ## Compare CPU time and memory of planning with Karpenter's or another build's (CONFORMANCE=… BASELINE=…)
	@[[ -e $(CONFORMANCE)/provisioning-bench.jsonl.gz ]] || { echo "make bench-scheduling: $(CONFORMANCE)/provisioning-bench.jsonl.gz is missing: set CONFORMANCE to the folder of the recorded decisions" >&2; exit 2; }
	cargo build --profile cli --locked -p whittle
	infra/tools/bench-scheduling $(if $(BASELINE),--baseline $(BASELINE)) $(CARGO_TARGET_DIR)/cli/whittle $(CONFORMANCE)

bench-disruption: ## Compare time and results of disruption evaluations with Karpenter's or another build's (CONFORMANCE=… BASELINE=…)
	@[[ -e $(CONFORMANCE)/disruption-fleet.jsonl.gz ]] || { echo "make bench-disruption: $(CONFORMANCE)/disruption-fleet.jsonl.gz is missing: set CONFORMANCE to the folder of the recorded decisions" >&2; exit 2; }
	cargo build --profile cli --locked -p whittle
	infra/tools/bench-disruption $(if $(BASELINE),--baseline $(BASELINE)) $(CARGO_TARGET_DIR)/cli/whittle $(CONFORMANCE)

# A separate workspace, which shares only the build directory.
bench-inner-loops: ## Measure the search's inner loops, compared with the previous run
	cargo bench --locked --manifest-path bench/Cargo.toml

crds: ## Generate infra/chart/charts/crds/templates from the API types
	cargo run --quiet --locked -p api --example crds -- infra/chart/charts/crds/templates

# ARCHITECTURE is the functions' processor architecture; one other than this machine's also needs `make rust-target`.
ARCHITECTURE ?= arm64
package: package-tools ## Build the functions for deployment (ARCHITECTURE=arm64|x86_64), and write samconfig.toml; then `sam deploy`
	sam build --template sam-template.yaml --parameter-overrides Architecture=$(ARCHITECTURE)
	infra/tools/sam-config $(ARCHITECTURE)

# With --template-file, SAM deploys the folders that the template names, so only the built template deploys built functions.
package-lane: package-tools ## Build the functions of a VPC lane into .aws-sam/lane (ARCHITECTURE=…, as for the stack); see docs/deployment.md
	sam build --template infra/vpc-lane.yaml --build-dir .aws-sam/lane --parameter-overrides Architecture=$(ARCHITECTURE)

# Needs no container engine. The C library is linked statically, so the image needs only the program and certificates.
IMAGE ?= $(CARGO_TARGET_DIR)/relay-image.tar
relay-image: ## Write the relay's image as an OCI archive (IMAGE=…), for `podman load`, `docker load`, `skopeo copy` or `crane push`
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --package relay --target $(HOST_TRIPLE)
	infra/tools/relay-image $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/release/relay $(IMAGE) --name whittle/relay:$(RELAY_VERSION)

# .github/workflows/release.yml builds a release from a tag: several machines run some of these targets, and one machine assembles and
# publishes all artifacts. RELEASE_REPOSITORY is owner/name on GitHub, RELEASE_BUCKET the name of the buckets without
# -<Region>, RELEASE_REGIONS the Regions with a bucket; docs/releases.md describes the artifacts.
DIST ?= $(CARGO_TARGET_DIR)/dist
RELEASE := infra/release/release --dist $(DIST)
release-cli: package-tools ## Build the release archive of whittle for one platform (TARGET=linux-x86_64|linux-arm64|macos-x86_64|macos-arm64|windows-x86_64; default: this machine's)
	$(RELEASE) cli $(if $(TARGET),--target $(TARGET))

release-functions: package-tools ## Build the release zips of the functions (ARCHITECTURE=arm64|x86_64)
	$(RELEASE) functions --architecture $(ARCHITECTURE)

release-relay: ## Build the release image of the relay for this machine's architecture
	$(RELEASE) relay

release-sbom: ## Write the release's software bills of materials
	$(MAKE) --no-print-directory sbom SBOM=$(DIST)/sbom

release-assemble: ## Complete a release in DIST: image index, chart, templates, manifests, checksums
	$(RELEASE) assemble

release-publish: ## Sign and upload an assembled release (cosign, skopeo, helm, aws and gh, with their credentials)
	$(RELEASE) publish

release: ## Assemble and publish the artifacts in DIST
	$(MAKE) --no-print-directory release-assemble
	$(MAKE) --no-print-directory release-publish

# BINARIES is a folder with prebuilt programs; without it, this target compiles for a long time.
release-dry-run: package-tools ## Build all artifacts that this machine can build, list the others with a reason, and print the publishing commands (BINARIES=…)
	rm -rf $(DIST)
	@if command -v cargo-cyclonedx > /dev/null && [[ -z "$(BINARIES)" ]]; then $(MAKE) --no-print-directory release-sbom; fi
	$(RELEASE) dry-run $(if $(BINARIES),--binaries $(BINARIES))

# Needs no control plane. `sam local invoke` reads the built template and the network from samconfig.toml.
local: functions ## Run a local AWS with the stack and a sample cluster, for `sam local invoke` and `make invoke`, until interrupted
	infra/tools/sam-config --local $(HOST_ARCHITECTURE) $(WHITTLE_SAM_BUILD)/template.yaml
	cargo build --locked --workspace $(WITH_AWS) --bins
	exec env -u KUBECONFIG -u KUBEBUILDER_ASSETS $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/world --local-invoke events/env.json

# Logical ids in the template, such as ProvisionerFunction for functions/provisioner.
FUNCTION ?= provisioner
LOGICAL_ID = $(shell printf '%s' '$(FUNCTION)' | sed 's/^./\U&/')Function
invoke: tools ## Invoke a function with one event (FUNCTION=… EVENT=events/….json ENV_VARS=events/env.json)
	@[[ -n "$(EVENT)" ]] || { echo "usage: make invoke FUNCTION=provisioner EVENT=events/provisioner/wake.json [ENV_VARS=events/env.json]" >&2; exit 2; }
	@cargo build --quiet --locked -p $(FUNCTION)
	@infra/tools/invoke $(LOGICAL_ID) $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/$(FUNCTION) $(EVENT) \
		$(if $(ENV_VARS),--env-vars $(ENV_VARS))

# Uses sanitizers, which need RUSTC_BOOTSTRAP with a stable toolchain. New inputs are kept in the build directory, so that the next run
# continues with them; `cargo fuzz cmin` minimizes them for fuzz/corpus, which `make test` replays.
FUZZ := events lists quantities user-data views plan cron parameters command-line
HOURS ?= 1
fuzz: ## Run the fuzz targets for HOURS=1 in total (FUZZ="events lists …")
	@command -v cargo-fuzz > /dev/null || cargo install --quiet --locked --root $(WHITTLE_TOOLS) cargo-fuzz@0.13.1
	@declare -A features=([command-line]="--features command-line"); for target in $(FUZZ); do \
		mkdir -p $(CARGO_TARGET_DIR)/fuzz-corpus/$$target; \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz --target-dir $(CARGO_TARGET_DIR)/fuzz $${features[$$target]-} $$target \
			$(CARGO_TARGET_DIR)/fuzz-corpus/$$target fuzz/corpus/$$target -- \
			-max_total_time=$$(awk 'BEGIN { print int($(HOURS) * 3600 / $(words $(FUZZ))) }') -timeout=60 -rss_limit_mb=2048; \
	done

# Debian's LLVM tools read profiles of rustc 1.95 if both have the same LLVM version. The tests of the pure crates link no SDK and are built
# separately. `executor` and `turns` are not pure: their coverage is measured, but has no minimum. Crash sweeps take too long when
# instrumented.
SWIFT := not (binary(crash) or test(crash) or test(deleted_clusters))
LLVM := /usr/lib/llvm-22/bin
PURE := model api scheduling planner plancheck aws-rules view
STEPS := executor turns
COVERAGE := $(CARGO_TARGET_DIR)/coverage
LEAST ?= 90
coverage: tools ## Print the line coverage of the pure crates (fails below LEAST=90 %)
	@[[ -x $(LLVM)/llvm-cov ]] || { echo "make coverage: $(LLVM)/llvm-cov is missing: apt-get install llvm-22" >&2; exit 2; }
	@rm -rf $(COVERAGE)/profiles
	@export CARGO_TARGET_DIR=$(COVERAGE) CARGO_BUILD_TARGET=$(HOST_TRIPLE) RUSTFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE=$(COVERAGE)/profiles/%8m.profraw; \
	tests=($(addprefix -p ,$(PURE) $(STEPS) scenarios stories simulation)); \
	cargo nextest run --locked "$${tests[@]}" --profile coverage -E '$(SWIFT)'; \
	cargo nextest list --locked "$${tests[@]}" --list-type binaries-only --message-format json > $(COVERAGE)/tests.json
	@$(LLVM)/llvm-profdata merge --sparse $(COVERAGE)/profiles/*.profraw -o $(COVERAGE)/merged.profdata
	@$(LLVM)/llvm-cov export --format lcov --instr-profile $(COVERAGE)/merged.profdata \
		$$(jq -r '.["rust-binaries"][]["binary-path"] | "--object " + .' $(COVERAGE)/tests.json) > $(COVERAGE)/lines.lcov
	@infra/tools/coverage $(LEAST) $(COVERAGE)/missed.txt $(PURE) -- $(STEPS) < $(COVERAGE)/lines.lcov

# Outcomes of mutants are kept in the build directory. cargo-mutants mostly waits for cargo, so a debug build of it is enough.
mutants: tools ## Run mutation tests (SHARD=k/n, FILES=… relative to the root; without SHARD, print known outcomes)
	@command -v cargo-mutants > /dev/null || cargo install --quiet --locked --debug --root $(WHITTLE_TOOLS) cargo-mutants@27.1.0
	@CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/mutants/build infra/tools/mutants $(CARGO_TARGET_DIR)/mutants $(SHARD) $(FILES)

# The generator is built from crates.io on first use.
SBOM ?= $(CARGO_TARGET_DIR)/sbom
SHIPPED := cli infra/relay $(wildcard functions/*)
sbom: ## Write a CycloneDX bill of materials for each shipped program, and count its components (SBOM=folder)
	@command -v cargo-cyclonedx > /dev/null || cargo install --quiet --locked --root $(WHITTLE_TOOLS) cargo-cyclonedx@0.5.9
	@mkdir -p $(SBOM)
	@cargo cyclonedx --quiet --format json --features aws --override-filename whittle.sbom
	@for shipped in $(SHIPPED); do mv $$shipped/whittle.sbom.json $(SBOM)/$$(basename $$shipped).json; done
	@git ls-files --others '*whittle.sbom.json' | xargs --no-run-if-empty rm
	@for file in $(SBOM)/*.json; do printf '%5d components  %s\n' $$(jq '.components | length' $$file) $$file; done

# ADVISORY_DB names a clone of rustsec/advisory-db, which is not part of this repository.
advisories: tools ## Check dependencies for known vulnerabilities (ADVISORY_DB=folder)
	@infra/tools/advisories "$(ADVISORY_DB)"

TRIPLE ?= $(if $(filter arm64,$(ARCHITECTURE)),aarch64,x86_64)-unknown-linux-gnu
rust-target: ## Install the functions' Rust target (ARCHITECTURE=…), or another one (TRIPLE=…)
	rustup target add $(TRIPLE)

package-tools: ## Install the packaging tools into WHITTLE_TOOLS (Linux and macOS, x86_64 and arm64)
	@infra/tools/install packaging

tools: ## Install all pinned tools for tests and packaging into WHITTLE_TOOLS (Linux on x86_64)
	@infra/tools/install

clean: ## Remove build artifacts (the tools are kept)
	rm -rf .aws-sam $(WHITTLE_SAM_BUILD) $(WHITTLE_SAM_BUILD)-release
	cargo clean
