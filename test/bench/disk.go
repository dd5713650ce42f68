package main

import (
	"os"
	"path/filepath"
	"time"
)

// syncRate is how often in a second the disk makes 4 KiB durable for one writer, in a file whose blocks
// are there already: the most that anyone can get who waits for each write.
func (b *bench) syncRate(lasts time.Duration) (float64, error) {
	const page, pages = 4 << 10, 1 << 10
	f, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, page*pages)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	data, n, begin := make([]byte, page), 0, time.Now()
	for ; time.Since(begin) < lasts; n++ {
		data[0]++
		if _, err := f.WriteAt(data, int64(n%pages*page)); err != nil {
			return 0, err
		}
		if err := datasync(f); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}
