# Tells from coverage profiles how much of each package, and of all, was run: awk -v floor=PERCENT -f .ci/coverage.awk PROFILE...
# Below the floor it fails: that is for gross losses, such as tests that are skipped.

$1 == "mode:" { next }

{ size[$1] = $2; ran[$1] += $3 } # a block has a line for each test binary

END {
	for (block in size) {
		package = block
		sub("/[^/]*$", "", package)
		all[package] += size[block]
		seen[package] += ran[block] ? size[block] : 0
	}
	for (package in all) {
		printf "%6.1f %%  %s\n", 100 * seen[package] / all[package], package | "sort -k 3"
		statements += all[package]
		covered += seen[package]
	}
	close("sort -k 3")
	total = statements ? 100 * covered / statements : 0
	printf "%6.1f %%  of all statements\n", total
	if (total < floor) {
		printf "that is below %d %%: see which tests were not run\n", floor
		exit 1
	}
}
