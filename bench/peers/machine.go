package main

import (
	"os"
	"runtime/debug"
	"strings"
)

// cpuModel is what the kernel calls the processors, empty if it does not say.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimLeft(line, "\t :")
}

// versions are those of the modules that this program was built of, by path, and its revision if
// the build recorded it.
func versions() (modules map[string]string, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, ""
	}
	modules = make(map[string]string, len(info.Deps))
	for _, m := range info.Deps {
		if m.Replace != nil {
			continue // lockpipe, which the revision is about
		}
		modules[m.Path] = m.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value + revision
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += "+changes"
		}
	}
	return modules, revision
}
