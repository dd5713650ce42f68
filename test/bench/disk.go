package main

import (
	"os"
	"time"
)

// syncRate is how often in a second the disk makes 4 KiB durable for one writer, in a file whose blocks
// are there already: the most that anyone can get who waits for each write.
func (b *bench) syncRate(lasts time.Duration) (float64, error) {
	d, err := b.openDisk()
	if err != nil {
		return 0, err
	}
	defer d.close()
	begin := time.Now()
	for time.Since(begin) < lasts {
		if err := d.sync(); err != nil {
			return 0, err
		}
	}
	return float64(d.syncs) / time.Since(begin).Seconds(), nil
}

// beside does something and returns the 99th percentile, in milliseconds, of the time for a single write. It makes one
// write every ten milliseconds meanwhile. That is the time that a journal waits, with all other load on the disk.
func (b *bench) beside(do func() error) (p99 float64, err error) {
	d, err := b.openDisk()
	if err != nil {
		return 0, err
	}
	defer d.close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	var took []time.Duration
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			begin := time.Now()
			if d.sync() != nil {
				return
			}
			took = append(took, time.Since(begin))
		}
	}()
	err = do()
	close(stop)
	<-stopped
	return quantile(took, 0.99), err
}

const page, pages = 4 << 10, 1 << 10

// disk is a file whose blocks are there.
type disk struct {
	*os.File
	data  []byte
	syncs int64
}

func (b *bench) openDisk() (*disk, error) {
	f, err := os.CreateTemp(b.dir, "sync")
	if err != nil {
		return nil, err
	}
	d := &disk{File: f, data: make([]byte, page)}
	if _, err = f.Write(make([]byte, page*pages)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		d.close()
	}
	return d, err
}

func (d *disk) sync() error {
	d.data[0]++
	d.syncs++
	if _, err := d.WriteAt(d.data, d.syncs%pages*page); err != nil {
		return err
	}
	return datasync(d.File)
}

func (d *disk) close() {
	_ = d.Close()
	_ = os.Remove(d.Name())
}
