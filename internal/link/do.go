package link

import (
	"context"
	"errors"
	"strconv"

	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// serverError is an error that a server replied, without the node's passwords.
type serverError string

func (e serverError) Error() string { return string(e) }

// Reply is the reply to one command. Its zero value is one that did not come.
type Reply struct {
	// Came: the server replied, if only with an error.
	Came bool
	// Err is the error that the server replied, without the node's passwords, or why no reply came,
	// or why it is neither an integer, a string, a list of strings, a map nor a null.
	Err error
	// Int is an integer, if IsInt. Otherwise Text is a string, or Texts a list; they are empty for
	// a null.
	Int   int64
	IsInt bool
	Text  string
	Texts []string
	IsMap bool // a map, which RESP2 does not have
}

// Do sends commands in one piece and returns their replies. Only what is rare goes this way.
func (l *Link) Do(ctx context.Context, commands ...[]string) []Reply {
	built := make([]rueidis.Completed, len(commands))
	for i, words := range commands {
		built[i] = l.client.B().Arbitrary(words...).Build()
	}
	replies := make([]Reply, len(commands))
	for i, r := range l.client.DoMulti(ctx, built...) {
		replies[i] = l.reply(r)
	}
	return replies
}

// reply converts a reply.
func (l *Link) reply(result rueidis.RedisResult) (r Reply) {
	if err := result.NonRedisError(); err != nil {
		return Reply{Err: err}
	}
	r.Came = true
	message, err := result.ToMessage()
	switch {
	case rueidis.IsRedisNil(err):
	case err != nil:
		r.Err = serverError(l.Hide(errors.New(err.Error())).Error())
	case message.IsInt64():
		r.Int, r.Err = message.ToInt64()
		r.IsInt = true
	case message.IsMap():
		r.IsMap = true
	case message.IsArray():
		r.Texts, r.Err = message.AsStrSlice()
	default:
		r.Text, r.Err = message.ToString()
	}
	return r
}

// run runs a script, with other commands behind it, and loads it if the server does not have it. It
// returns the reply of the script.
func (l *Link) run(ctx context.Context, s *script.Script, keys, args []string,
	behind ...[]string,
) Reply {
	evalsha := append([]string{"EVALSHA", s.SHA, strconv.Itoa(len(keys))}, keys...)
	commands := append([][]string{append(evalsha, args...)}, behind...)
	r := l.Do(ctx, commands...)[0]
	if r.Came && r.Err != nil && hasWord(r.Err, "NOSCRIPT") {
		load := []string{"SCRIPT", "LOAD", s.Source}
		r = l.Do(ctx, append([][]string{load}, commands...)...)[1]
	}
	return r
}
