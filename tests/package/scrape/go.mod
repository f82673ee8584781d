module calmalloc.test/scrape

go 1.22

require (
	github.com/google/pprof v0.0.0-20241210010833-40e02aabc2ad
	github.com/grafana/pyroscope/api v1.2.0
	github.com/prometheus/common v0.63.0
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	github.com/prometheus/client_model v0.6.1 // indirect
	google.golang.org/protobuf v1.36.5 // indirect
)
