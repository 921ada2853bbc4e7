package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	kerberoscredentials "github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// credentials are the arguments of the verb login besides topic, value and timeout.
type credentials struct {
	Bootstrap         string `json:"bootstrap"`
	Protocol          string `json:"protocol"`
	Trust             string `json:"trust"`
	Key               string `json:"key"`
	Mechanism         string `json:"mechanism"`
	User              string `json:"user"`
	Password          string `json:"password"`
	IsDelegationToken bool   `json:"is_delegation_token"`
	Token             string `json:"token"`
	Principal         string `json:"principal"`
	Keys              string `json:"keys"`
	Tickets           string `json:"tickets"`
	Krb5              string `json:"krb5"`
	Service           string `json:"service"`
}

// login writes and reads a record with the given credentials, and tells the client's errors.
func (d *driver) login(ctx context.Context, c command) (any, error) {
	said := []string{}
	if err := writeAndRead(ctx, c); err != nil {
		said = append(said, err.Error())
	}
	return map[string]any{"said": said}, nil
}

func writeAndRead(ctx context.Context, c command) error {
	timeout := time.Duration(c.TimeoutMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options, err := c.options()
	if err != nil {
		return err
	}
	options = append(options,
		kgo.RetryTimeout(timeout), kgo.RecordDeliveryTimeout(timeout), kgo.DisableIdempotentWrite())
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	record := &kgo.Record{Topic: c.Topic, Value: []byte(c.Value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		c.Topic: {record.Partition: kgo.NewOffset().At(record.Offset)},
	})
	fetched := client.PollFetches(ctx)
	if errors := fetched.Errors(); len(errors) > 0 {
		return errors[0].Err
	}
	if records := fetched.Records(); string(records[0].Value) != c.Value {
		return fmt.Errorf("read another record: %q", records[0].Value)
	}
	return nil
}

func (c *credentials) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap)}
	if strings.HasSuffix(c.Protocol, "SSL") {
		config, err := c.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch c.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(c.scram().AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(c.scram().AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: c.Token}.AsMechanism()))
	case "GSSAPI":
		client, err := c.kerberos()
		if err != nil {
			return nil, err
		}
		auth := kerberos.Auth{Client: client, Service: c.Service}
		options = append(options, kgo.SASL(auth.AsMechanismWithClose()))
	}
	return options, nil
}

func (c *credentials) scram() scram.Auth {
	return scram.Auth{User: c.User, Pass: c.Password, IsToken: c.IsDelegationToken}
}

// kerberos returns a client of Kerberos with the keys or the tickets of the principal.
func (c *credentials) kerberos() (*client.Client, error) {
	settings, err := config.Load(c.Krb5)
	if err != nil {
		return nil, err
	}
	if c.Keys == "" {
		tickets, err := kerberoscredentials.LoadCCache(c.Tickets)
		if err != nil {
			return nil, err
		}
		return client.NewFromCCache(tickets, settings)
	}
	keys, err := keytab.Load(c.Keys)
	if err != nil {
		return nil, err
	}
	realm := settings.LibDefaults.DefaultRealm
	return client.NewWithKeytab(c.Principal, realm, keys, settings), nil
}

func (c *credentials) tls() (*tls.Config, error) {
	config := &tls.Config{}
	if c.Trust != "" {
		text, err := os.ReadFile(c.Trust)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in %s", c.Trust)
		}
	}
	if c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Key, c.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
