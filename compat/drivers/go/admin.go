package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
)

func (d *driver) createTopic(ctx context.Context, c command) (any, error) {
	var partitions int32
	if err := json.Unmarshal(c.Partitions, &partitions); err != nil {
		return nil, err
	}
	configs := map[string]*string{}
	for name, value := range c.Configs {
		configs[name] = &value
	}
	_, err := d.admin.CreateTopic(ctx, partitions, 1, configs, c.Topic)
	return nil, err
}

func (d *driver) deleteTopic(ctx context.Context, c command) (any, error) {
	_, err := d.admin.DeleteTopic(ctx, c.Topic)
	return nil, err
}

func (d *driver) addPartitions(ctx context.Context, c command) (any, error) {
	answer, err := d.admin.UpdatePartitions(ctx, c.Total, c.Topic)
	if err == nil {
		err = answer.Error()
	}
	return nil, err
}

func (d *driver) topics(ctx context.Context, c command) (any, error) {
	details, err := d.admin.ListTopicsWithInternal(ctx)
	return map[string]any{"topics": details.Names()}, err
}

func (d *driver) partitions(ctx context.Context, c command) (any, error) {
	details, err := d.admin.ListTopics(ctx, c.Topic)
	if err == nil {
		err = details[c.Topic].Err
	}
	return map[string]any{"partitions": len(details[c.Topic].Partitions)}, err
}

func (d *driver) describeTopic(ctx context.Context, c command) (any, error) {
	resources, err := d.admin.DescribeTopicConfigs(ctx, c.Topic)
	if err != nil {
		return nil, err
	}
	resource, err := resources.On(c.Topic, nil)
	if err == nil {
		err = resource.Err
	}
	configs := map[string]*string{}
	for _, config := range resource.Configs {
		configs[config.Key] = config.Value
	}
	return map[string]any{"configs": configs}, err
}

func (d *driver) alterTopic(ctx context.Context, c command) (any, error) {
	set := kadm.AlterConfig{Op: kadm.SetConfig, Name: c.Name, Value: &c.Value}
	answers, err := d.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{set}, c.Topic)
	for _, answer := range answers {
		if err == nil {
			err = answer.Err
		}
	}
	return nil, err
}

func (d *driver) deleteRecords(ctx context.Context, c command) (any, error) {
	before := kadm.Offsets{}
	before.Add(kadm.Offset{Topic: c.Topic, Partition: c.Partition, At: c.Offset})
	answers, err := d.admin.DeleteRecords(ctx, before)
	if err == nil {
		err = answers.Error()
	}
	return nil, err
}

func (d *driver) offset(ctx context.Context, c command) (any, error) {
	var listed kadm.ListedOffsets
	var err error
	switch c.At {
	case "earliest":
		listed, err = d.admin.ListStartOffsets(ctx, c.Topic)
	case "latest":
		listed, err = d.admin.ListEndOffsets(ctx, c.Topic)
	default:
		var at int64
		if at, err = strconv.ParseInt(c.At, 10, 64); err != nil {
			return nil, err
		}
		listed, err = d.admin.ListOffsetsAfterMilli(ctx, at, c.Topic)
	}
	if err != nil {
		return nil, err
	}
	found, _ := listed.Lookup(c.Topic, c.Partition)
	// kadm answers with the end of the log where nothing is that late, and with timestamp -1 then.
	if found.Offset < 0 || (found.Timestamp < 0 && c.At != "earliest" && c.At != "latest") {
		return map[string]any{"offset": nil}, found.Err
	}
	return map[string]any{"offset": found.Offset}, found.Err
}

func (d *driver) committed(ctx context.Context, c command) (any, error) {
	responses, err := d.admin.FetchOffsets(ctx, c.Group)
	offsets := map[string]int64{}
	responses.Each(func(each kadm.OffsetResponse) {
		if each.Topic == c.Topic && each.At >= 0 {
			offsets[strconv.Itoa(int(each.Partition))] = each.At
		}
	})
	return map[string]any{"offsets": offsets}, err
}

func (d *driver) groups(ctx context.Context, c command) (any, error) {
	listed, err := d.admin.ListGroups(ctx)
	return map[string]any{"groups": listed.Groups()}, err
}

func (d *driver) deleteGroup(ctx context.Context, c command) (any, error) {
	_, err := d.admin.DeleteGroup(ctx, c.Group)
	return nil, err
}
