// What calm export serves, read by the code of those who collect it: Prometheus' parser of text, which node exporter
// has for its files, the parser that Parca's scraper calls, and the decoder of Pyroscope's server. Prints one JSON
// object.
//
//	scrape numbers|profile < BODY
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"os"

	"github.com/google/pprof/profile"
	pyroscope "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"github.com/prometheus/common/expfmt"
)

type sum struct {
	Types     []string
	Values    []int64            // of all samples, by type
	Functions map[string][]int64 // of the samples that a function is in, each once
}

func newSum(types []string) *sum {
	return &sum{types, make([]int64, len(types)), map[string][]int64{}}
}

func (s *sum) add(values []int64, names map[string]bool) {
	for i, value := range values {
		s.Values[i] += value
	}
	for name := range names {
		if s.Functions[name] == nil {
			s.Functions[name] = make([]int64, len(values))
		}
		for i, value := range values {
			s.Functions[name][i] += value
		}
	}
}

func byParca(body []byte) *sum {
	p, err := profile.ParseData(body)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		log.Fatal("Parca: ", err)
	}
	var types []string
	for _, one := range p.SampleType {
		types = append(types, one.Type+"/"+one.Unit)
	}
	found := newSum(types)
	for _, sample := range p.Sample {
		names := map[string]bool{}
		for _, location := range sample.Location {
			for _, line := range location.Line {
				names[line.Function.Name] = true
			}
		}
		found.add(sample.Value, names)
	}
	return found
}

func byPyroscope(body []byte) *sum {
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		log.Fatal("Pyroscope: ", err)
	}
	plain, err := io.ReadAll(unpacked)
	if err != nil {
		log.Fatal("Pyroscope: ", err)
	}
	var p pyroscope.Profile
	if err := p.UnmarshalVT(plain); err != nil {
		log.Fatal("Pyroscope: ", err)
	}
	text := func(index int64) string { return p.StringTable[index] }
	var types []string
	for _, one := range p.SampleType {
		types = append(types, text(one.Type)+"/"+text(one.Unit))
	}
	functions, locations := map[uint64]string{}, map[uint64]*pyroscope.Location{}
	for _, function := range p.Function {
		functions[function.Id] = text(function.Name)
	}
	for _, location := range p.Location {
		locations[location.Id] = location
	}
	found := newSum(types)
	for _, sample := range p.Sample {
		names := map[string]bool{}
		for _, id := range sample.LocationId {
			for _, line := range locations[id].Line {
				names[functions[line.FunctionId]] = true
			}
		}
		found.add(sample.Value, names)
	}
	return found
}

func numbers(body []byte) map[string]map[string]float64 {
	parser := expfmt.TextParser{}
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		log.Fatal("Prometheus: ", err)
	}
	found := map[string]map[string]float64{}
	for name, family := range families {
		found[name] = map[string]float64{}
		for _, metric := range family.Metric {
			labels := ""
			for _, label := range metric.Label {
				if label.GetName() != "program" {
					labels += label.GetName() + "=" + label.GetValue() + ";"
				}
			}
			found[name][labels] = metric.GetGauge().GetValue()
		}
	}
	return found
}

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var found any
	if os.Args[1] == "numbers" {
		found = numbers(body)
	} else {
		found = map[string]*sum{"Parca": byParca(body), "Pyroscope": byPyroscope(body)}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
