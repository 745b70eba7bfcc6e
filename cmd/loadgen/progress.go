package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/bench/figures"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// bar shows how far the run is, on a terminal. If there is no terminal, it is nil, and shows
// nothing.
type bar struct {
	container *mpb.Progress
	line      *mpb.Bar
	perSecond atomic.Uint64
}

func newBar(w io.Writer, total time.Duration) *bar {
	f, ok := w.(*os.File)
	if !ok || !cwriter.IsTerminal(int(f.Fd())) {
		return nil
	}
	b := &bar{container: mpb.New(mpb.WithOutput(f), mpb.WithWidth(50))}
	b.line = b.container.AddBar(total.Milliseconds(),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(s decor.Statistics) string {
			elapsed := time.Duration(s.Current) * time.Millisecond
			return fmt.Sprintf("%v of %v", elapsed.Truncate(time.Second), total)
		})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			return figures.Thousands(b.perSecond.Load()) + " locks/s"
		})))
	return b
}

// update is bench.Config.Progress.
func (b *bar) update(elapsed time.Duration, locks uint64) {
	if b == nil {
		return
	}
	b.perSecond.Store(uint64(float64(locks) / elapsed.Seconds()))
	b.line.SetCurrent(elapsed.Milliseconds())
}

// close takes the bar off the terminal, so that only the result is left.
func (b *bar) close() {
	if b == nil {
		return
	}
	b.line.Abort(true)
	b.container.Wait()
}
