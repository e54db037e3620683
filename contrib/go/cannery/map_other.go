//go:build !unix

package cannery

import "os"

// mapFile reads a file into memory, because this platform has no syscall.Mmap.
func mapFile(path string) ([]byte, func([]byte) error, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	size, err := checkRegular(file)
	if err != nil {
		return nil, nil, err
	}
	if size == 0 {
		return nil, nil, &os.PathError{Op: "read", Path: path, Err: ErrNotArchive}
	}
	data, err := os.ReadFile(path)
	return data, func([]byte) error { return nil }, err
}
