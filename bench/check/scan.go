package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp/resptools"
)

const (
	// scanCount is how many keys a node looks at in one SCAN: well below a millisecond of its time.
	scanCount = "1000"
	// scanTimeout bounds a search of all nodes.
	scanTimeout = time.Minute
	// reservedPrefix begins, after the run's prefix, the names of keys that Clients keep on purpose
	// after their locks.
	reservedPrefix = "lockpipe:"
)

// LeftoverKeys counts the keys with the prefix on all nodes, without those that Clients keep on
// purpose. If it can't search a node, the error says so and the count is that of the others.
func LeftoverKeys(ctx context.Context, nodes []Endpoint, prefix string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	total := 0
	var errs []error
	for _, node := range nodes {
		n, err := countKeys(ctx, node, prefix)
		if err != nil {
			errs = append(errs, fmt.Errorf("search %s for leftover keys: %w", node.Name(), err))
		}
		total += n
	}
	return total, errors.Join(errs...)
}

// countKeys counts the keys of one node. It walks the whole key space with SCAN, which does not
// block the node.
func countKeys(ctx context.Context, node Endpoint, prefix string) (int, error) {
	c, err := dial(ctx, node)
	if err != nil {
		return 0, err
	}
	defer c.close()
	keys, err := c.scan(node.node.Tag + prefix)
	return len(keys), err
}

// scan walks the key space and returns the keys that begin with the prefix, in order.
func (c *conn) scan(prefix string) ([]string, error) {
	found := make(map[string]struct{}) // SCAN may return a key twice
	err := resptools.Scan(c.client, func(key string) {
		if strings.HasPrefix(key, prefix) && !strings.HasPrefix(key[len(prefix):], reservedPrefix) {
			found[key] = struct{}{}
		}
	}, "MATCH", escapeGlob(prefix)+"*", "COUNT", scanCount)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// escapeGlob makes every character of a MATCH pattern stand for itself.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
