D ?= 1m

.PHONY: api ci cover interop sim spec test

# Records the public API in api/, after it was changed on purpose.
api:
	go test -run '^TestThePublicAPIIsAsRecorded$$' . -args -api.update

# All checks, as before a merge.
ci:
	bash .ci/run

# How much of each package all tests together run; without the race detector, whose findings the counters hide.
cover:
	go test -timeout=10m -coverpkg=./... -coverprofile=cover.out ./...
	awk -v floor=90 -f .ci/coverage.awk cover.out

# lockpipe and other Redlock clients on the same masters: needs redis-server, node and npm.
interop:
	cd interop && npm ci --ignore-scripts --no-audit --no-fund
	cd interop && LOCKPIPE_REQUIRE_REDIS=1 LOCKPIPE_REQUIRE_NODE=1 go test -count=1 -timeout=10m ./...

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
