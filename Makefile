D ?= 1m

.PHONY: ci sim spec test

# All checks, as before a merge.
ci:
	bash .ci/run

# The simulation with seeds that nobody has tried, for so long: make sim D=10m
sim:
	cd sim && go test -run '^TestSimulation$$' -count=1 -timeout=0 -v . -args -sim.for=$(D)

# The model of the algorithm, in full: needs spin and gcc.
spec:
	bash spec/check.sh full

test:
	go test ./...
	cd sim && go test ./...
