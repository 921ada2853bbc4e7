package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member of a share group. The results of acknowledgements come from another goroutine.
type shareMember struct {
	client *kgo.Client
	polled map[int64]*kgo.Record
	mutex  sync.Mutex
	errors []string
}

type acquired struct {
	Partition  int32  `json:"partition"`
	Offset     int64  `json:"offset"`
	Deliveries int32  `json:"deliveries"`
	Value      string `json:"value"`
}

var acknowledgements = map[string]kgo.AckStatus{
	"ACCEPT":  kgo.AckAccept,
	"RELEASE": kgo.AckRelease,
	"REJECT":  kgo.AckReject,
	"RENEW":   kgo.AckRenew,
}

func (m *shareMember) acknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, result := range results {
		if result.Err != nil {
			m.errors = append(m.errors, result.Err.Error())
		}
	}
}

func (d *driver) alterGroup(ctx context.Context, c command) (any, error) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeGroupConfig
	resource.ResourceName = c.Group
	for name, value := range c.Configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, kmsg.StringPtr(value)
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	client, err := kgo.NewClient(connection(d.bootstrap)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	return nil, kerr.ErrorForCode(response.Resources[0].ErrorCode)
}

func (d *driver) shareJoin(_ context.Context, c command) (any, error) {
	m := &shareMember{polled: map[int64]*kgo.Record{}}
	options := append(
		connection(d.bootstrap),
		kgo.ShareGroup(c.Group),
		kgo.ConsumeTopics(c.Topics...),
		kgo.ShareAckCallback(m.acknowledged),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MaxConcurrentFetches(0), // acquires no records before they are polled
	)
	if text := c.Configs["max.poll.records"]; text != "" {
		count, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.ShareMaxRecords(int32(count)))
	}
	if c.Configs["share.acquire.mode"] == "record_limit" {
		options = append(options, kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	m.client = client
	d.shareMembers[c.Member] = m
	return nil, nil
}

func (d *driver) sharePoll(ctx context.Context, c command) (any, error) {
	m := d.shareMembers[c.Member]
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	fetches := m.client.PollFetches(ctx)
	for _, failed := range fetches.Errors() {
		if ctx.Err() == nil {
			return nil, failed.Err
		}
	}
	records := []acquired{}
	fetches.EachRecord(func(record *kgo.Record) {
		m.polled[record.Offset] = record
		records = append(records, acquired{
			record.Partition, record.Offset, record.DeliveryCount(),
			base64.StdEncoding.EncodeToString(record.Value),
		})
	})
	return map[string]any{"records": records}, nil
}

// Without types, all records of the last poll are accepted.
func (d *driver) shareAcknowledge(ctx context.Context, c command) (any, error) {
	m := d.shareMembers[c.Member]
	for text, name := range c.Types {
		offset, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		status, known := acknowledgements[name]
		if !known {
			return nil, fmt.Errorf("unknown type %s", name)
		}
		m.client.MarkAcks(status, m.polled[offset])
	}
	if len(c.Types) == 0 {
		m.client.MarkAcks(kgo.AckAccept)
	}
	if err := m.client.FlushAcks(ctx); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	errors := m.errors
	m.errors = nil
	if errors == nil {
		errors = []string{}
	}
	return map[string]any{"errors": errors}, nil
}

func (d *driver) shareLeave(_ context.Context, c command) (any, error) {
	d.shareMembers[c.Member].client.Close()
	delete(d.shareMembers, c.Member)
	return nil, nil
}
