module github.com/lockpipe/lockpipe/adapters/rueidislock

go 1.25.0

replace github.com/lockpipe/lockpipe => ../..

require (
	github.com/lockpipe/lockpipe v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
