package lockpipe

import (
	"context"
	"strings"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/reserved"
)

// validateCall checks the arguments before anything is sent, and drops repeated keys. Errors name
// keys by their number, since keys may be long or secret.
func (c *Client) validateCall(
	ctx context.Context, kind outcomes.Call, keys []string, opts []Option,
) ([]string, locker.Options, error) {
	o, err := c.applyOptions(opts)
	o.Kind = kind
	switch {
	case err != nil:
		return nil, o, err
	case ctx == nil:
		return nil, o, errNilContext
	case len(keys) == 0:
		return nil, o, invalid("no keys: give at least one")
	case len(keys) > maxKeys:
		return nil, o, invalid("%d keys in one call: give at most %d", len(keys), maxKeys)
	}
	for i, k := range keys {
		switch {
		case k == "":
			return nil, o, invalid("key %d of %d is empty", i+1, len(keys))
		case strings.HasPrefix(k, reserved.Own):
			return nil, o, invalid("key %d of %d, %.64q, begins with %q, as the Client's own "+
				"keys do: name it otherwise", i+1, len(keys), k, reserved.Own)
		case c.reserved.In(k) != "":
			return nil, o, invalid("key %d of %d, behind Config.Prefix %.64q, has %q in its name, "+
				"which clients keep for themselves: name it otherwise",
				i+1, len(keys), c.cfg.Prefix, c.reserved.In(k))
		case len(c.cfg.Prefix)+len(k) > maxKeyLength:
			return nil, o, invalid("key %d of %d has %d bytes: give at most %d, with the prefix",
				i+1, len(keys), len(k), maxKeyLength)
		}
	}
	return parts.Distinct(keys), o, nil
}
