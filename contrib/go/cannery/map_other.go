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
	if _, err := checkRegular(file); err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(path)
	return data, func([]byte) error { return nil }, err
}
