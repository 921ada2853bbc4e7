package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A member of a group. Its partitions are told by callbacks, which run on another goroutine.
type member struct {
	client *kgo.Client
	mutex  sync.Mutex
	owned  map[string]bool
}

func (m *member) change(partitions map[string][]int32, owned bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, indexes := range partitions {
		for _, index := range indexes {
			name := fmt.Sprintf("%s-%d", topic, index)
			if owned {
				m.owned[name] = true
			} else {
				delete(m.owned, name)
			}
		}
	}
}

func (m *member) assignment() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	names := []string{}
	for name := range m.owned {
		names = append(names, name)
	}
	return names
}

func collect(ctx context.Context, client *kgo.Client, count int, timeout time.Duration) ([]wasRead, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	records := []wasRead{}
	for len(records) < count && ctx.Err() == nil {
		fetches := client.PollRecords(ctx, count-len(records))
		for _, failed := range fetches.Errors() {
			if ctx.Err() == nil {
				return nil, failed.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) { records = append(records, shown(record)) })
	}
	return records, nil
}

func (d *driver) read(ctx context.Context, c command) (any, error) {
	var partitions []int32
	if err := json.Unmarshal(c.Partitions, &partitions); err != nil {
		return nil, err
	}
	starts := map[int32]kgo.Offset{}
	for _, index := range partitions {
		starts[index] = kgo.NewOffset().At(c.From)
	}
	isolation := kgo.ReadUncommitted()
	if c.Committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(append(
		connection(d.bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: starts}),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.FetchIsolationLevel(isolation),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records, err := collect(ctx, client, c.Count, time.Duration(c.TimeoutMs)*time.Millisecond)
	return map[string]any{"records": records}, err
}

func (d *driver) join(_ context.Context, c command) (any, error) {
	m := &member{owned: map[string]bool{}}
	balancer := kgo.RangeBalancer()
	if c.Strategy == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(d.bootstrap),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.change(partitions, true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.change(partitions, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.change(partitions, false)
		}),
	}
	if c.Strategy == "server" {
		if c.Instance != "" {
			return nil, fmt.Errorf("%w: franz-go tells no instance id when a static member leaves", errUnsupported)
		}
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		options = append(options, kgo.Balancers(balancer))
	}
	if c.Pattern != "" {
		options = append(options, kgo.ConsumeTopics("^"+c.Pattern+"$"), kgo.ConsumeRegex())
	} else {
		options = append(options, kgo.ConsumeTopics(c.Topics...))
	}
	if c.Instance != "" {
		options = append(options, kgo.InstanceID(c.Instance))
	}
	client, err := kgo.NewClient(options...)
	m.client = client
	d.members[c.Member] = m
	return nil, err
}

func (d *driver) poll(ctx context.Context, c command) (any, error) {
	m := d.members[c.Member]
	records, err := collect(ctx, m.client, c.Count, time.Duration(c.TimeoutMs)*time.Millisecond)
	return map[string]any{"records": records, "assignment": m.assignment()}, err
}

func (d *driver) commit(ctx context.Context, c command) (any, error) {
	return nil, d.members[c.Member].client.CommitUncommittedOffsets(ctx)
}

func (d *driver) leave(_ context.Context, c command) (any, error) {
	d.members[c.Member].client.Close()
	delete(d.members, c.Member)
	return nil, nil
}
