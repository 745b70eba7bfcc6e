package batch

// worker is a goroutine of the log that sleeps while there is nothing to do. Guarded by the log's
// mu.
type worker struct {
	step  func() (busy bool) // does one thing, if there is one; mu is held; set once
	woken chan struct{}      // of capacity 1: the goroutine goes on; nil: there is none
	awake bool               // it looks for something to do before it sleeps
}

// wake has a worker look for something to do. mu is held.
func (l *Log[Op, State]) wake(w *worker) {
	switch {
	case w.awake:
		return
	case w.woken == nil:
		w.woken = make(chan struct{}, 1)
		go l.work(w, w.woken)
	default:
		w.woken <- struct{}{}
	}
	w.awake = true
}

// work is the goroutine of a worker.
func (l *Log[Op, State]) work(w *worker, woken <-chan struct{}) {
	for goesOn := true; goesOn; _, goesOn = <-woken {
		l.mu.Lock()
		for w.step() {
		}
		if w.awake = false; l.closed {
			l.dismiss(w)
		}
		l.tellIdle()
		l.mu.Unlock()
	}
}

// dismiss ends the goroutine of a worker, if it sleeps. mu is held.
func (l *Log[Op, State]) dismiss(w *worker) {
	if !w.awake && w.woken != nil {
		close(w.woken)
		w.woken = nil
	}
}

// advance wakes who has something to do. All that change what that depends on call it, before they
// release mu. mu is held.
func (l *Log[Op, State]) advance() {
	for i := range l.readers {
		if l.canStart(i) {
			l.wake(&l.readers[i].writer)
		}
	}
	if l.canSeal() {
		l.wake(&l.sealer)
	}
	l.tellIdle()
}
