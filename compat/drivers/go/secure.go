package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// connection returns the options with which every client connects. The environment variable
// CLIENT_PROPERTIES may name a file with librdkafka's settings of SASL_SSL and PLAIN, or with
// sasl.mechanism=OAUTHBEARER and a token, for SASL_PLAINTEXT.
func connection(bootstrap string) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap)}
	file := os.Getenv("CLIENT_PROPERTIES")
	if file == "" {
		return options
	}
	settings := map[string]string{}
	text, err := os.ReadFile(file)
	fail(err)
	for _, line := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(line, "=")
		settings[name] = value
	}
	if settings["sasl.mechanism"] == "OAUTHBEARER" {
		token := oauth.Auth{Token: settings["token"]}
		return append(options, kgo.SASL(token.AsMechanism()))
	}
	authorities, err := os.ReadFile(settings["ssl.ca.location"])
	fail(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		fail(fmt.Errorf("no certificate in %s", settings["ssl.ca.location"]))
	}
	user := plain.Auth{User: settings["sasl.username"], Pass: settings["sasl.password"]}
	return append(
		options,
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(user.AsMechanism()),
	)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
