package resp

import (
	"bytes"
	"errors"
	"strconv"
)

// Value is one reply in memory of its own.
type Value struct {
	Kind  byte    // as in RESP2: + - : $ or *. In RESP3 also another one
	Text  string  // of all kinds but an array
	Null  bool    // of kind $ or *, or _
	Items []Value // of an array; a map has names and values in turns
}

// valueOf decodes the value that p begins with, which a Scanner has found. rest is what is behind
// it.
func valueOf(p []byte) (v Value, rest []byte) {
	end := bytes.IndexByte(p, '\n')
	v, rest = Value{Kind: p[0], Text: string(p[1 : end-1])}, p[end+1:]
	if v.Kind == '_' {
		v.Null = true
	}
	if bytes.IndexByte([]byte("$!=*~>%|"), v.Kind) < 0 {
		return v, rest
	}
	length, _ := strconv.Atoi(v.Text)
	v.Text = ""
	switch v.Kind {
	case '$', '!', '=':
		if v.Null = length < 0; v.Null {
			return v, rest
		}
		v.Text, rest = string(rest[:length]), rest[length+2:]
		switch v.Kind {
		case '!':
			v.Kind = '-'
		case '=': // behind the format, such as txt:
			v.Kind, v.Text = '$', v.Text[min(4, length):]
		}
		return v, rest
	case '%', '|':
		length *= 2
	}
	v.Null = length < 0
	for range length {
		var item Value
		item, rest = valueOf(rest)
		v.Items = append(v.Items, item)
	}
	if v.Kind == '|' {
		return valueOf(rest) // attributes come before the value
	}
	return v, rest
}

// Err returns the error that the server replied with, or nil.
func (v Value) Err() error {
	if v.Kind != '-' {
		return nil
	}
	return errors.New(v.Text)
}

// AsString returns the text of a string. ok is false for null and for other kinds.
func (v Value) AsString() (text string, ok bool) {
	return v.Text, !v.Null && (v.Kind == '$' || v.Kind == '+')
}

// Texts returns the texts of the items.
func (v Value) Texts() (texts []string) {
	for _, item := range v.Items {
		texts = append(texts, item.Text)
	}
	return texts
}

// Pairs returns the names and values that take turns in an array, as CONFIG GET has them.
func Pairs(items []Value) map[string]string {
	all := make(map[string]string)
	for i := 0; i+1 < len(items); i += 2 {
		all[items[i].Text] = items[i+1].Text
	}
	return all
}
