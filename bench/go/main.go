// franz-go as a load; the verbs are described in bench/clients/__init__.py.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const callTimeout = 120 * time.Second

type command struct {
	Do         string `json:"do"`
	Bootstrap  string `json:"bootstrap"`
	Topic      string `json:"topic"`
	Payloads   string `json:"payloads"`
	Records    int    `json:"records"`
	Partitions int32  `json:"partitions"`
}

type load struct{ payloads map[string][][]byte }

func main() {
	l := &load{payloads: map[string][][]byte{}}
	lines := bufio.NewReaderSize(os.Stdin, 1<<16)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := answers.Encode(l.answer(line)); err != nil {
			return
		}
	}
}

func (l *load) answer(line []byte) map[string]any {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return refused(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var result any
	var err error
	switch c.Do {
	case "about":
		result = about()
	case "produce":
		result, err = l.produce(ctx, c)
	case "consume":
		result, err = consume(ctx, c)
	default:
		return map[string]any{"unsupported": "the Go program has no verb " + c.Do}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, c.Do, err)
		return refused(err)
	}
	return map[string]any{"ok": result}
}

func refused(err error) map[string]any {
	name := "Error"
	var known *kerr.Error
	if errors.As(err, &known) {
		name = known.Message
	}
	return map[string]any{"error": map[string]string{"name": name, "message": err.Error()}}
}

func about() map[string]string {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				version = module.Version
			}
		}
	}
	return map[string]string{"client": "franz-go", "version": version}
}

func (l *load) read(path string) ([][]byte, error) {
	if values, known := l.payloads[path]; known {
		return values, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var values [][]byte
	for len(data) > 0 {
		end := 4 + binary.BigEndian.Uint32(data)
		values = append(values, data[4:end])
		data = data[end:]
	}
	l.payloads[path] = values
	return values, nil
}

func (l *load) produce(ctx context.Context, c command) (any, error) {
	payloads, err := l.read(c.Payloads)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.Bootstrap),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var failure atomic.Pointer[error]
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			failure.CompareAndSwap(nil, &err)
		}
	}
	start := time.Now()
	bytes := 0
	for i := 0; i < c.Records; i++ {
		value := payloads[i%len(payloads)]
		bytes += len(value)
		client.Produce(ctx, &kgo.Record{Topic: c.Topic, Value: value}, acknowledged)
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return map[string]any{"bytes": bytes, "seconds": time.Since(start).Seconds()}, nil
}

func consume(ctx context.Context, c command) (any, error) {
	offsets := map[int32]kgo.Offset{}
	for i := int32(0); i < c.Partitions; i++ {
		offsets[i] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: offsets}),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	start := time.Now()
	read, bytes := 0, 0
	for read < c.Records {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			read++
			bytes += len(record.Value)
		})
	}
	return map[string]any{"bytes": bytes, "seconds": time.Since(start).Seconds()}, nil
}
