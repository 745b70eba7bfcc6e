package main

import (
	"fmt"
	"strings"
)

// chooseScenarios returns those that a comma-separated list names, in its order. Growth stands for
// all whose names begin with it.
func chooseScenarios(list string) ([]scenario, error) {
	if list == "all" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		found := false
		for _, s := range scenarios {
			if s.name == name || name == growthPrefix &&
				strings.HasPrefix(s.name, growthPrefix+"-") {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no scenario %q; there are: %s", name,
				strings.Join(scenarioNames(), ", "))
		}
	}
	return chosen, nil
}

// growthPrefix begins the names of the scenarios about growing cost.
const growthPrefix = "growth"

func scenarioNames() []string {
	all := make([]string, len(scenarios))
	for i, s := range scenarios {
		all[i] = s.name
	}
	return all
}
