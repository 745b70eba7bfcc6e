D ?= 1m

.PHONY: ci interop orders sim spec test

# All checks, as before a merge.
ci:
	bash .ci/run

# lockpipe and other Redlock clients on the same masters: needs redis-server, node and npm.
interop:
	cd interop && npm ci --ignore-scripts --no-audit --no-fund
	cd interop && LOCKPIPE_REQUIRE_REDIS=1 LOCKPIPE_REQUIRE_NODE=1 go test -count=1 -timeout=10m ./...

# Orders with row locks and with locks outside of the database, on PostgreSQL and MariaDB: make orders ARGS='-db postgres -items 1'
orders:
	cd examples/orders && go run ./cmd/compare $(ARGS)

# The simulation with seeds that nobody has tried, for so long: make sim D=10m
sim:
	cd sim && go test -run '^TestSimulation$$' -count=1 -timeout=0 -v . -args -sim.for=$(D)

# The model of the algorithm, in full: needs spin and gcc.
spec:
	bash spec/check.sh full

test:
	go test ./...
	cd sim && go test ./...
	cd interop && go test ./...
	cd examples/orders && go test ./...
