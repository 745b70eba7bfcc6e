D ?= 1m
ROUNDS ?= 5

.PHONY: api ci cover demo docs interop orders released sim spec test bench-peers bench-build bench-render

# Records the public API in api/, after it was changed on purpose.
api:
	go test -run '^TestAPI_IsAsRecorded$$' ./internal/repository -args -api.update

# Records the public API of the stable packages in api/released/, at a release.
released:
	go test -run '^TestChangelog_NamesWhatChangedInTheAPI$$' ./internal/repository -args -api.release

# Writes the table of metrics in docs/operations.md, after a metric or its help text was changed.
docs:
	go test -run '^TestDocs_MetricsAreTheCollectors$$' ./internal/repository -args -docs.update

# All checks, as before a merge.
ci:
	bash .ci/run

# How much of each package all tests together run; without the race detector, whose findings the counters hide.
cover:
	LOCKPIPE_REAL_TIME=1 go test -timeout=10m -coverpkg=./... -coverprofile=cover.out ./...
	awk -v floor=90 -f .ci/coverage.awk cover.out

# lockpipe and other Redlock clients on the same masters: needs redis-server, node and npm.
interop:
	cd interop && npm ci --ignore-scripts --no-audit --no-fund
	cd interop && LOCKPIPE_REQUIRE_REDIS=1 LOCKPIPE_REQUIRE_NODE=1 go test -count=1 -timeout=10m ./...

# Everything that docs/benchmarks.md tells of other libraries, of distance and of growth, with ROUNDS rounds: some 16 minutes on a machine with
# nothing else to do. Each part alone is make bench-libraries and so on, and then make bench-render. Needs redis-server.
comma = ,
space = $() $()
BENCH_PARTS = libraries hot distance held growth
bench-peers: $(addprefix bench-,$(BENCH_PARTS))
	$(MAKE) bench-render

bench-libraries: BENCH_ARGS = -scenario one,64,512,batch,frozen -rounds $(ROUNDS)
bench-hot: BENCH_ARGS = -scenario hot,hot16 -contenders lockpipe,redsync-rueidis,redislock,rueidislock -rounds $(ROUNDS)
bench-distance: BENCH_ARGS = -scenario far,mixed -contenders lockpipe,redsync-rueidis -rounds $(ROUNDS)
bench-held: BENCH_ARGS = -scenario held -contenders lockpipe -rounds $(ROUNDS)
bench-growth: BENCH_ARGS = -scenario growth -contenders lockpipe -rounds 3 -d 1500ms

.NOTPARALLEL: bench-peers
.PHONY: $(addprefix bench-,$(BENCH_PARTS))
$(addprefix bench-,$(BENCH_PARTS)): bench-%: bench-build
	mkdir -p bench/peers/parts
	bench/peers/peers $(BENCH_ARGS) -json bench/peers/parts/$*.json

bench-build:
	cd bench/peers && go build -o peers .

bench-render: bench-build
	bench/peers/peers -out docs/benchmarks -render $(subst $(space),$(comma),$(strip $(wildcard $(BENCH_PARTS:%=bench/peers/parts/%.json))))
# Orders with row locks and with locks outside of the database, on PostgreSQL and MariaDB: make orders ARGS='-db postgres -items 1'
orders:
	cd examples/orders && go run ./cmd/compare $(ARGS)

# A page where row locks and lockpipe serve the same flash sale, live, with faults: needs PostgreSQL and redis-server.
demo:
	cd examples/orders && go run ./cmd/demo $(ARGS)

# The simulation with seeds that nobody has tried, for so long: make sim D=10m
sim:
	cd sim && go test -run '^TestSimulation$$' -count=1 -timeout=0 -v . -args -sim.for=$(D)

# The models of the algorithm, in full: needs spin and gcc.
spec:
	bash spec/check.sh full

test:
	go test ./...
	cd sim && go test ./...
	cd interop && go test ./...
	cd examples/orders && go test ./...
