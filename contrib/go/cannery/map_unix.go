//go:build unix

package cannery

import (
	"errors"
	"os"
	"syscall"
)

// mapFile maps a file read-only, and returns the function that unmaps it.
func mapFile(path string) ([]byte, func([]byte) error, error) {
	// Opening a FIFO must not block until its other end is open.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	size, err := checkRegular(file)
	if err != nil {
		return nil, nil, err
	}
	if size == 0 {
		// Nothing can be mapped. It isn't an archive, either.
		return nil, func([]byte) error { return nil }, nil
	}
	if int64(int(size)) != size {
		return nil, nil, &os.PathError{Op: "mmap", Path: path, Err: errors.New("the file is too large")}
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, syscall.Munmap, nil
}
