// Package prefix makes errors whose text begins with the name of the library, once, whatever other
// errors are in it. Packages lease and batch put it before the text of errors that are returned as
// they are.
package prefix

import (
	"fmt"
	"strings"
)

// Text is the prefix.
const Text = "lockpipe: "

// Errorf is fmt.Errorf with the prefix before the text. The errors among args lose theirs.
func Errorf(format string, args ...any) error {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = inner{err}
		}
	}
	return fmt.Errorf(Text+format, args...)
}

// Without returns err with a text without the prefix, for the text of another error.
func Without(err error) error { return inner{err} }

type inner struct{ err error }

func (e inner) Error() string { return strings.TrimPrefix(e.err.Error(), Text) }

func (e inner) Unwrap() error { return e.err }

// Keys returns the text for a key and so many others.
func Keys(first string, more int) string {
	text := fmt.Sprintf("%.64q", first)
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Join is errors.Join, on a line each, with the prefix before the first.
func Join(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &joined{errs}
}

type joined struct{ errs []error }

func (e *joined) Error() string {
	lines := make([]string, len(e.errs))
	for i, err := range e.errs {
		lines[i] = inner{err}.Error()
	}
	return Text + strings.Join(lines, "\n")
}

func (e *joined) Unwrap() []error { return e.errs }
