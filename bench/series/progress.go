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
	return repeat(progressInterval, func() time.Duration {
		tell(time.Since(b.start), acquired())
		return progressInterval
	})
}

// repeat calls do after a pause, and again after each pause that do returns, until stop is called,
// and a last time then.
func repeat(pause time.Duration, do func() (pause time.Duration)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := false; !last; {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-done:
				timer.Stop()
				last = true
			}
			pause = do()
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
