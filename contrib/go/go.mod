module github.com/cannery/cannery/contrib/go

go 1.22
