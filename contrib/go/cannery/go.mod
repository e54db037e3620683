module github.com/cannery/cannery/contrib/go/cannery

go 1.22
