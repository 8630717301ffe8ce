package skillbay

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPlainObject holds the short way of reading a tool's input against
// encoding/json: what it takes is an object of strings, with the same members.
func FuzzPlainObject(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"a":"b"}`, ` { "a" : "b" , "c" : "" } `, `{"a":"b","a":"c"}`, `{"a":"b",}`, `{"a":"b"}x`, `{"a":1}`, `{"a":null}`,
		`{"a":"\u0041"}`, `{"\u005f_arg1":"x"}`, `{"a":"` + "\x01" + `"}`, `{"a":"` + "\xff" + `"}`, `{"a":"é🙂"}`, `{"a":"b" "c":"d"}`,
		`{"a":["b"]}`, `{"a":{"b":"c"}}`, `{"a" "b"}`, `{"a":"b"`, `{"a":"b`, "{\"a\":\"b\"}\u00a0", "{\u00a0\"a\":\"b\"}", `["a"]`, `"a"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		members := map[string]string{}
		plain := plainObject(text, func(name, value string) { members[name] = value })
		if plain != plainObject(text, nil) {
			t.Fatal("it depends on the listener")
		}
		var want map[string]string
		dec := json.NewDecoder(strings.NewReader(text))
		err := dec.Decode(&want)
		if !plain {
			escapes := strings.Contains(text, `\`) || strings.Contains(text, "null") || !utf8.ValidString(text)
			if err == nil && len(want) > 0 && json.Valid([]byte(text)) && !escapes {
				t.Fatalf("%q is plain", text)
			}
			return
		}
		if err != nil || dec.More() || !json.Valid([]byte(text)) {
			t.Fatalf("%q is none: %v", text, err)
		}
		if len(want) != len(members) {
			t.Fatalf("%q: %v, want %v", text, members, want)
		}
		for name, value := range want {
			if members[name] != value {
				t.Fatalf("%q: %v, want %v", text, members, want)
			}
		}
	})
}
