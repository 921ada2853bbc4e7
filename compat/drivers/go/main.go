// franz-go as a driver; the verbs are described in compat/drivers/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const callTimeout = 60 * time.Second

var errUnsupported = errors.New("unsupported")

type command struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Topics     []string          `json:"topics"`
	Partitions json.RawMessage   `json:"partitions"`
	Partition  int32             `json:"partition"`
	Configs    map[string]string `json:"configs"`
	Total      int               `json:"total"`
	Name       string            `json:"name"`
	Value      string            `json:"value"`
	Offset     int64             `json:"offset"`
	At         string            `json:"at"`
	Records    []toWrite         `json:"records"`
	Codec      string            `json:"codec"`
	Acks       *int              `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	From       int64             `json:"from"`
	Count      int               `json:"count"`
	TimeoutMs  int               `json:"timeout_ms"`
	Member     string            `json:"member"`
	Group      string            `json:"group"`
	Strategy   string            `json:"strategy"`
	Instance   string            `json:"instance"`
	Pattern    string            `json:"pattern"`
	Committed  bool              `json:"committed"`
	ID         string            `json:"id"`
	End        string            `json:"end"`
	Types      map[string]string `json:"types"`
	credentials
}

type driver struct {
	bootstrap string
	admin     *kadm.Client
	members   map[string]*member

	shareMembers map[string]*shareMember
}

type verb func(*driver, context.Context, command) (any, error)

var verbs = map[string]verb{
	"about":          (*driver).about,
	"create_topic":   (*driver).createTopic,
	"delete_topic":   (*driver).deleteTopic,
	"add_partitions": (*driver).addPartitions,
	"topics":         (*driver).topics,
	"partitions":     (*driver).partitions,
	"describe_topic": (*driver).describeTopic,
	"alter_topic":    (*driver).alterTopic,
	"delete_records": (*driver).deleteRecords,
	"offset":         (*driver).offset,
	"produce":        (*driver).produce,
	"produce_empty":  (*driver).produceEmpty,
	"read":           (*driver).read,
	"transact":       (*driver).transact,
	"join":           (*driver).join,
	"poll":           (*driver).poll,
	"commit":         (*driver).commit,
	"leave":          (*driver).leave,
	"committed":      (*driver).committed,
	"groups":         (*driver).groups,
	"delete_group":   (*driver).deleteGroup,
	"login":          (*driver).login,

	"alter_group":       (*driver).alterGroup,
	"share_join":        (*driver).shareJoin,
	"share_poll":        (*driver).sharePoll,
	"share_acknowledge": (*driver).shareAcknowledge,
	"share_leave":       (*driver).shareLeave,
}

func main() {
	client, err := kgo.NewClient(connection(os.Args[1])...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := &driver{bootstrap: os.Args[1], admin: kadm.NewClient(client), members: map[string]*member{}, shareMembers: map[string]*shareMember{}}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := answers.Encode(d.answer(line)); err != nil {
			return
		}
	}
}

func (d *driver) answer(line []byte) map[string]any {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return refused(err)
	}
	run, known := verbs[c.Do]
	if !known {
		return map[string]any{"unsupported": "the Go program has no verb " + c.Do}
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	result, err := run(d, ctx, c)
	switch {
	case errors.Is(err, errUnsupported):
		return map[string]any{"unsupported": err.Error()}
	case err != nil:
		fmt.Fprintln(os.Stderr, c.Do, err)
		return refused(err)
	case result == nil:
		return map[string]any{"ok": map[string]any{}}
	}
	return map[string]any{"ok": result}
}

func refused(err error) map[string]any {
	name := "Error"
	var known *kerr.Error
	if errors.As(err, &known) {
		name = known.Message
	}
	return map[string]any{"error": map[string]string{"name": name, "message": err.Error()}}
}

func (d *driver) about(context.Context, command) (any, error) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				version = module.Version
			}
		}
	}
	return map[string]string{"client": "franz-go", "version": version}, nil
}
