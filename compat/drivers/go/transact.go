package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transact writes records in a transaction of a client of its own, which stays if it is left open.
func (d *driver) transact(ctx context.Context, c command) (any, error) {
	if c.Group != "" {
		return nil, fmt.Errorf("%w: franz-go commits offsets in transactions of its group sessions only", errUnsupported)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(d.bootstrap),
		kgo.TransactionalID(c.ID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	for _, each := range c.Records {
		record, err := each.record(c.Topic)
		if err != nil {
			return nil, err
		}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
	}
	if c.End == "none" {
		return map[string]any{}, nil
	}
	defer client.Close()
	return map[string]any{}, client.EndTransaction(ctx, c.End == "commit")
}
