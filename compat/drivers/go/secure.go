package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connection returns the options with which every client connects. The environment variable
// CLIENT_PROPERTIES may name a file with librdkafka's settings.
func connection(bootstrap string) []kgo.Opt {
	c := credentials{Bootstrap: bootstrap}
	if file := os.Getenv("CLIENT_PROPERTIES"); file != "" {
		settings := map[string]string{}
		text, err := os.ReadFile(file)
		fail(err)
		for _, line := range strings.Split(string(text), "\n") {
			name, value, _ := strings.Cut(line, "=")
			settings[name] = value
		}
		c.Protocol = settings["security.protocol"]
		c.Trust = settings["ssl.ca.location"]
		c.Mechanism = settings["sasl.mechanisms"]
		c.User = settings["sasl.username"]
		c.Password = settings["sasl.password"]
	}
	options, err := c.options()
	fail(err)
	return options
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
