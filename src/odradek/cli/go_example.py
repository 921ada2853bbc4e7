"""The program in Go that `odradek secure init` writes, for franz-go."""

from __future__ import annotations

from typing import Final

GO_EXAMPLE: Final = """\
// Writes a record to the topic greetings and reads it, with the settings in librdkafka.properties.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func main() {
	text, err := os.ReadFile("librdkafka.properties")
	check(err)
	settings := map[string]string{}
	for _, line := range strings.Split(string(text), "\\n") {
		name, value, _ := strings.Cut(line, "=")
		settings[name] = value
	}
	authority, err := os.ReadFile(settings["ssl.ca.location"])
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	login := plain.Auth{User: settings["sasl.username"], Pass: settings["sasl.password"]}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(settings["bootstrap.servers"], ",")...),
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
		kgo.SASL(login.AsMechanism()),
		kgo.AllowAutoTopicCreation(),
	)
	check(err)
	defer client.Close()

	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: "greetings", Value: []byte("hello from Go")}
	check(client.ProduceSync(limited, record).FirstErr())
	written := map[int32]kgo.Offset{record.Partition: kgo.NewOffset().At(record.Offset)}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{record.Topic: written})
	fetches := client.PollRecords(limited, 1)
	check(fetches.Err())
	fmt.Println(string(fetches.Records()[0].Value))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
"""
