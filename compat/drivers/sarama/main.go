// Sarama against one broker: `sarama-driver HOST:PORT`. It prints each step that has worked.
//
// It is no driver for the scenarios, which franz-go runs in Go. It does once what most programs with
// Sarama do: topics, idempotent produce in each codec, reads, groups, and transactions.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic      = "sarama"
	partitions = 3
	perCodec   = 30
	patience   = 60 * time.Second
)

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy,
	sarama.CompressionLZ4, sarama.CompressionZSTD,
}

func check(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Idempotent = true
	made.Net.MaxOpenRequests = 1
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	return made
}

func value(codec sarama.CompressionCodec, number int) string {
	return fmt.Sprintf("%s-%d", codec, number)
}

func produce(addresses []string, codec sarama.CompressionCodec) {
	settings := config()
	settings.Producer.Compression = codec
	producer, err := sarama.NewSyncProducer(addresses, settings)
	check("producer", err)
	var messages []*sarama.ProducerMessage
	for number := range perCodec {
		messages = append(messages, &sarama.ProducerMessage{
			Topic:   topic,
			Key:     sarama.StringEncoder(fmt.Sprint(number)),
			Value:   sarama.StringEncoder(value(codec, number)),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte{0, 1}}},
		})
	}
	check("send", producer.SendMessages(messages))
	check("close", producer.Close())
}

func transact(addresses []string, commit bool) {
	settings := config()
	settings.Producer.Transaction.ID = "sarama-job"
	producer, err := sarama.NewSyncProducer(addresses, settings)
	check("transactional producer", err)
	check("begin", producer.BeginTxn())
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{
		Topic: topic, Value: sarama.StringEncoder(fmt.Sprintf("transaction %t", commit)),
	})
	check("send in a transaction", err)
	if commit {
		check("commit", producer.CommitTxn())
	} else {
		check("abort", producer.AbortTxn())
	}
	check("close", producer.Close())
}

func expect(found map[string]bool) {
	for _, codec := range codecs {
		for number := range perCodec {
			if !found[value(codec, number)] {
				log.Fatalf("%s was not read", value(codec, number))
			}
		}
	}
	if !found["transaction true"] || found["transaction false"] {
		log.Fatalf("read of transactions: %v", found)
	}
}

const count = 5*perCodec + 1

func read(addresses []string) {
	consumer, err := sarama.NewConsumer(addresses, config())
	check("consumer", err)
	received := make(chan *sarama.ConsumerMessage)
	for index := range int32(partitions) {
		part, err := consumer.ConsumePartition(topic, index, sarama.OffsetOldest)
		check("partition", err)
		go func() {
			for each := range part.Messages() {
				received <- each
			}
		}()
	}
	found := map[string]bool{}
	for range count {
		select {
		case each := <-received:
			found[string(each.Value)] = true
		case <-time.After(patience):
			log.Fatalf("only %d records were read", len(found))
		}
	}
	expect(found)
}

type member struct {
	found map[string]bool
	lines chan string
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (one *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case each, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(each, "")
			one.lines <- string(each.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume(addresses []string, wanted int) map[string]bool {
	group, err := sarama.NewConsumerGroup(addresses, "sarama-group", config())
	check("group", err)
	one := &member{found: map[string]bool{}, lines: make(chan string)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{topic}, one); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for len(one.found) < wanted {
		select {
		case line := <-one.lines:
			one.found[line] = true
		case <-time.After(patience):
			log.Fatalf("the member has read %d records", len(one.found))
		}
	}
	cancel()
	check("consume", <-done)
	check("close", group.Close())
	return one.found
}

func main() {
	addresses := os.Args[1:]
	admin, err := sarama.NewClusterAdmin(addresses, config())
	check("admin", err)
	one := "1"
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"min.insync.replicas": &one}}
	check("create topic", admin.CreateTopic(topic, detail, false))
	described, err := admin.DescribeTopics([]string{topic})
	check("describe topic", err)
	if len(described[0].Partitions) != partitions {
		log.Fatalf("partitions: %v", described[0])
	}
	fmt.Println("topic")
	for _, codec := range codecs {
		produce(addresses, codec)
	}
	transact(addresses, true)
	transact(addresses, false)
	fmt.Println("produce")
	read(addresses)
	fmt.Println("read")
	expect(consume(addresses, count))
	produce(addresses, sarama.CompressionNone)
	if again := consume(addresses, perCodec); len(again) != perCodec {
		log.Fatalf("the group has read %d records again", len(again))
	}
	fmt.Println("group")
	groups, err := admin.ListConsumerGroups()
	check("list groups", err)
	if _, is := groups["sarama-group"]; !is {
		log.Fatalf("groups: %v", groups)
	}
	check("delete group", admin.DeleteConsumerGroup("sarama-group"))
	check("delete topic", admin.DeleteTopic(topic))
	check("close", admin.Close())
	fmt.Println("deleted")
}
