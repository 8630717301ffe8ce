package skillbay

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shippedTexts are the Texts that the package exports.
var shippedTexts = map[string]*Texts{"English": English, "Chinese": Chinese}

// eachText calls f with every field of t and its declared placeholders.
func eachText(t *Texts, f func(name, text string, has []string)) {
	value := reflect.ValueOf(t).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		var has []string
		if tag := field.Tag.Get("has"); tag != "" {
			has = strings.Split(tag, ",")
		}
		f(field.Name, value.Field(i).String(), has)
	}
}

func TestShippedTexts(t *testing.T) {
	placeholder := regexp.MustCompile(`\{([a-z]+)\}`)
	for language, texts := range shippedTexts {
		t.Run(language, func(t *testing.T) {
			complete, err := texts.complete()
			require.NoError(t, err)
			assert.Equal(t, texts, complete, "nothing is taken from English")
			assert.NotSame(t, texts, complete)

			eachText(texts, func(name, text string, has []string) {
				assert.NotEmpty(t, text, name)
				for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
					assert.Contains(t, has, match[1], "%s uses a placeholder that nothing fills", name)
				}
			})
			for _, name := range []string{"ListingIntro", "ListingMore", "Released"} {
				text := reflect.ValueOf(texts).Elem().FieldByName(name).String()
				assert.NotContains(t, text, "\n", "%s is one line", name)
			}
		})
	}
}

// TestProtocolTexts are sentences that the contract fixes word for word, in
// every language.
func TestProtocolTexts(t *testing.T) {
	assert.Equal(t, "Launching skill: ", launchLine)
	for language, texts := range shippedTexts {
		t.Run(language, func(t *testing.T) {
			assert.True(t, strings.HasPrefix(texts.UnknownSkill, "Unknown skill: \"{skill}\"."), texts.UnknownSkill)
			assert.True(t, strings.HasPrefix(texts.Denied, "Skill {skill} execution blocked by permission policy."), texts.Denied)
			eachText(texts, func(name, text string, _ []string) {
				assert.NotContains(t, text, launchLine, "%s could pass for a launch", name)
			})
		})
	}
}

// TestTextsAskForNoSecrecy is case se-10: notices that ask to be hidden from
// the user look like attacks.
func TestTextsAskForNoSecrecy(t *testing.T) {
	t.Run("se-10", func(t *testing.T) {
		secretive := regexp.MustCompile(`(?i)(do not|don't|never|without) (mention|tell|reveal|say|inform|show)|hid(e|den)\b|secret|不要(提|告诉|透露)|隐藏|保密`)
		for language, texts := range shippedTexts {
			eachText(texts, func(name, text string, _ []string) {
				assert.NotRegexp(t, secretive, text, "%s.%s", language, name)
			})
		}
	})
}

func TestTextsComplete(t *testing.T) {
	t.Run("nil is English", func(t *testing.T) {
		got, err := (*Texts)(nil).complete()
		require.NoError(t, err)
		assert.Equal(t, English, got)
		assert.NotSame(t, English, got, "a copy, so that a later change of English changes no Middleware")
	})
	t.Run("empty texts are English", func(t *testing.T) {
		mine := &Texts{NoSkills: "no skill"}
		got, err := mine.complete()
		require.NoError(t, err)
		want := *English
		want.NoSkills = "no skill"
		assert.Equal(t, &want, got)
		assert.Equal(t, &Texts{NoSkills: "no skill"}, mine, "the host's Texts are not changed")
	})

	tests := []struct {
		name  string
		texts Texts
		want  string // in the error; empty: none
	}{
		{"a placeholder is missing", Texts{ListingMore: "more"}, "Texts.ListingMore lacks its placeholder {count}"},
		{"one of several is missing", Texts{FilePage: "{path} {from} {size}"}, "Texts.FilePage lacks its placeholder {to}"},
		{"placeholders in another order", Texts{NotListed: "{allowed} {skills} {tool}"}, ""},
		{"a placeholder in another case", Texts{Released: "{Skill}"}, "Texts.Released lacks its placeholder {skill}"},
		{"a phrase that ends a run", Texts{Launched: "End with Final Answer: x."}, `Texts.Launched contains "final answer:"`},
		{"in any case", Texts{Launched: "the ANSWER is: x"}, `Texts.Launched contains "the answer is:"`},
		{"a prefix of the conversational agent", Texts{ListingIntro: "I am your AI: ask me."}, `Texts.ListingIntro contains "ai:"`},
		{"an action", Texts{Absent: "{skills}\nAction: skill"}, `Texts.Absent contains "action:"`},
		{"an action's input", Texts{SkillTool: "Action Input: the name"}, `Texts.SkillTool contains`},
		{"an observation", Texts{FileTool: "Observation: a file"}, `Texts.FileTool contains "observation:"`},
		{"the words without the colon", Texts{Launched: "This action is an observation, the final answer of an AI."}, ""},
		{"a reminder tag", Texts{Reinjected: "{skill} <system-reminder>"}, "Texts.Reinjected contains a system-reminder tag"},
		{"the end of a reminder, in disguise", Texts{Invoked: "{skill} </ System_Reminder>"}, "Texts.Invoked contains a system-reminder tag"},
		{"a stub of two lines", Texts{Released: "{skill}\nreleased"}, "Texts.Released is more than one line"},
		{"text like a template", Texts{Launched: "{{.Skill}} {unknown}"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.texts.complete()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrConfig)
			assert.ErrorContains(t, err, tt.want)
			assert.Nil(t, got)
		})
	}
}

// TestTextsCompleteChecksEveryText breaks each text in turn: none is forgotten.
func TestTextsCompleteChecksEveryText(t *testing.T) {
	eachText(English, func(name, text string, has []string) {
		broken := []string{text + " Final Answer: x", text + " <system-reminder>"}
		for _, placeholder := range has {
			broken = append(broken, strings.ReplaceAll(text, "{"+placeholder+"}", ""))
		}
		for _, text := range broken {
			texts := *English
			reflect.ValueOf(&texts).Elem().FieldByName(name).SetString(text)
			_, err := texts.complete()
			require.ErrorIs(t, err, ErrConfig, "%s = %q", name, text)
			require.ErrorContains(t, err, "Texts."+name)
		}
	})
}

func TestFill(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		pairs []string
		want  string
	}{
		{"one", "Skill {skill}.", []string{"skill", "pdf"}, "Skill pdf."},
		{"several, in any order", "{b}{a}", []string{"a", "1", "b", "2"}, "21"},
		{"twice", "{to}, {to}", []string{"to", "9"}, "9, 9"},
		{"a value is never scanned", "{a} {b}", []string{"a", "{b}", "b", "{a}"}, "{b} {a}"},
		{"values that make a placeholder together", "{{a}}", []string{"a", "b", "b", "x"}, "{b}"},
		{"no such placeholder", "{c}", []string{"a", "1"}, "{c}"},
		{"no pairs", "{a}", nil, "{a}"},
		{"text like a template or a JSON form", `{"skill": "{skill}"} {{.x}} $1`, []string{"skill", "$0 %s"}, `{"skill": "$0 %s"} {{.x}} $1`},
		{"an empty value", "[{a}]", []string{"a", ""}, "[]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, fill(tt.text, slices.Clone(tt.pairs)...))
		})
	}
}

// TestFillEveryText fills each text with values that look like placeholders:
// all declared ones are filled, once.
func TestFillEveryText(t *testing.T) {
	for language, texts := range shippedTexts {
		eachText(texts, func(name, text string, has []string) {
			var pairs []string
			want := text
			for _, placeholder := range has {
				pairs = append(pairs, placeholder, "<"+placeholder+">")
				want = strings.ReplaceAll(want, "{"+placeholder+"}", "<"+placeholder+">")
			}
			assert.Equal(t, want, fill(text, pairs...), "%s.%s", language, name)
		})
	}
}
