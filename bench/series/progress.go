package series

import "time"

// progressInterval is the time between two calls of Progress.
const progressInterval = 100 * time.Millisecond

// Progress calls tell now and then, with the time since the start and the locks acquired in it,
// until stop is called, and a last time then. If tell is nil, it does nothing.
func (b *Builder) Progress(tell func(elapsed time.Duration, locks uint64),
	acquired func() uint64,
) (stop func()) {
	if tell == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				tell(time.Since(b.start), acquired())
			case <-done:
				tell(time.Since(b.start), acquired())
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
