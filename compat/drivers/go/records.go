package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	valueShownMax   = 4096
	requestBytesMax = 64 << 20
)

type toWrite struct {
	Partition int32           `json:"partition"`
	Key       *string         `json:"key"`
	Value     json.RawMessage `json:"value"`
	Headers   [][]*string     `json:"headers"`
	Timestamp *int64          `json:"timestamp"`
}

type wasRead struct {
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       *string     `json:"key"`
	Value     any         `json:"value"`
	Headers   [][]*string `json:"headers"`
}

func decoded(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if data == nil {
		data = []byte{} // empty is not null
	}
	return data, err
}

func encoded(data []byte) *string {
	if data == nil {
		return nil
	}
	text := base64.StdEncoding.EncodeToString(data)
	return &text
}

func (w toWrite) valueBytes() ([]byte, error) {
	var fill struct{ Fill int }
	if bytes.HasPrefix(w.Value, []byte("{")) {
		err := json.Unmarshal(w.Value, &fill)
		return bytes.Repeat([]byte("x"), fill.Fill), err
	}
	var text *string
	if err := json.Unmarshal(w.Value, &text); err != nil {
		return nil, err
	}
	return decoded(text)
}

func (w toWrite) record(topic string) (*kgo.Record, error) {
	key, err := decoded(w.Key)
	if err != nil {
		return nil, err
	}
	value, err := w.valueBytes()
	if err != nil {
		return nil, err
	}
	record := &kgo.Record{Topic: topic, Partition: w.Partition, Key: key, Value: value}
	if w.Timestamp != nil {
		record.Timestamp = time.UnixMilli(*w.Timestamp)
	}
	for _, header := range w.Headers {
		content, err := decoded(header[1])
		if err != nil {
			return nil, err
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: *header[0], Value: content})
	}
	return record, nil
}

func shown(record *kgo.Record) wasRead {
	read := wasRead{
		Topic: record.Topic, Partition: record.Partition, Offset: record.Offset,
		Timestamp: record.Timestamp.UnixMilli(), Key: encoded(record.Key), Value: encoded(record.Value),
		Headers: [][]*string{},
	}
	if len(record.Value) > valueShownMax {
		digest := sha256.Sum256(record.Value)
		read.Value = map[string]any{"size": len(record.Value), "sha256": hex.EncodeToString(digest[:])}
	}
	for _, header := range record.Headers {
		name := header.Key
		read.Headers = append(read.Headers, []*string{&name, encoded(header.Value)})
	}
	return read
}

func codec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("no codec %q", name)
}

func producerOptions(bootstrap string, c command) ([]kgo.Opt, error) {
	compression, err := codec(c.Codec)
	if err != nil {
		return nil, err
	}
	acks := kgo.AllISRAcks()
	if c.Acks != nil && *c.Acks == 0 {
		acks = kgo.NoAck()
	} else if c.Acks != nil && *c.Acks == 1 {
		acks = kgo.LeaderAck()
	}
	options := append(connection(bootstrap), []kgo.Opt{
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression),
		kgo.RequiredAcks(acks),
		kgo.ProducerBatchMaxBytes(requestBytesMax),
		kgo.BrokerMaxWriteBytes(2 * requestBytesMax),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerLinger(20 * time.Millisecond),
	}...)
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options, nil
}

func (d *driver) produce(ctx context.Context, c command) (any, error) {
	options, err := producerOptions(d.bootstrap, c)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(c.Records))
	for i, each := range c.Records {
		if records[i], err = each.record(c.Topic); err != nil {
			return nil, err
		}
	}
	offsets := make([]*int64, len(records))
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	for i, record := range records {
		if c.Acks == nil || *c.Acks != 0 {
			offsets[i] = &record.Offset
		}
	}
	return map[string]any{"offsets": offsets}, nil
}

func (d *driver) produceEmpty(context.Context, command) (any, error) {
	return nil, fmt.Errorf("%w: franz-go makes no batch without a record", errUnsupported)
}
