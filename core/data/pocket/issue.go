package pocket

import "strings"

// phrasebook words the issues of a split. {c} is a call, {g} what it gives, {w}
// what it should give, {n} the function's name, {b} what it is about.
type phrasebook struct {
	sentences map[string][]string // by phrasing
	before    []string
	after     []string
}

var trainPhrases = phrasebook{
	sentences: map[string][]string{
		phraseFull: {
			"{c} gives {g}, but it should be {w}.", "I called {c} and got {g}. Expected {w}.",
			"Bug: {c} returns {g} instead of {w}.", "{c} should be {w}, not {g}.",
			"Wrong result: {c} is {g}, want {w}.", "We get {g} from {c}, {w} is right.",
			"{c} is {g} here. The right value is {w}.", "Got {g} for {c}, want {w}.",
			"Expected {w} from {c}, got {g}.", "The value of {c} is {g} and not {w}.",
			"{w} was hoped for from {c}, {g} came.", "With {c} we see {g} where {w} belongs.",
		},
		phraseWant: {
			"{c} should return {w}.", "Expected {w} from {c}.", "{c} is wrong, {w} expected.",
			"We want {w} for {c}.", "{w} is the right value of {c}.", "The right result for {c} is {w}.",
			"{c} is not {w}, but it should be.", "I would like {w} from {c}.", "{c} must be {w}.",
			"It should hold that {c} is {w}.",
		},
		phraseGot: {
			"{c} gives {g}, which is wrong.", "I get {g} from {c}. This is a bug.", "Bug: {c} returns {g}.",
			"{g} is not right for {c}.", "{c} is {g} here, not what I expected.", "Got {g} for {c}. Wrong.",
			"The value {g} of {c} is a mistake.", "We see {g} from {c}, that is not right.",
			"{c} should never be {g}.", "{c} ends in {g}.",
		},
		phraseName: {
			"{n} does not do what its docs say.", "{n} is broken.", "Bug in {n}.", "Please fix {n}, results are wrong.",
			"{n} returns wrong results.", "The result of {n} is not right.", "Look at {n}, it is wrong.",
			"I think {n} has a mistake.", "{n} and its examples disagree.", "Do not trust {n}.",
		},
		phraseBeh: {
			"There is a bug: {b}.", "{b}: wrong results.", "Problem with {b}.", "Please look at {b}, it is broken.",
			"Something is wrong: {b}.", "I see a mistake in {b}.", "{b} is not right.", "The code for {b} does not work.",
			"We have trouble: {b}.", "Users complain: {b}.",
		},
	},
	before: []string{"", "", "", "Hi. ", "Hello, ", "Please help. ", "Seen today: ", "Since the last release: ", "Report: ", "Found this: "},
	after:  []string{"", "", "", " Please fix.", " Thanks.", " This is new.", " It was fine before.", " See the docs.", " Any idea?"},
}

var evalPhrases = phrasebook{
	sentences: map[string][]string{
		phraseFull: {
			"Calling {c} should give {w}, but I get {g}.", "For {c} I expected {w} and got {g}.",
			"{g} is what {c} returns. It should be {w}.", "{c}: {g} instead of {w}.",
		},
		phraseWant: {
			"The result of {c} should be {w}.", "{c}: {w} expected.", "Please make {c} return {w}.",
			"By the docs {c} is {w}.",
		},
		phraseGot: {
			"Why is {c} equal to {g}? Wrong.", "The result of {c} is {g}, a bug.", "{c} returned {g} today, a mistake.",
			"{g} from {c} looks wrong.",
		},
		phraseName: {
			"Wrong results from {n}.", "The docs of {n} say something else.", "{n} has a bug.", "Can you check {n}?",
		},
		phraseBeh: {
			"We see wrong results for {b}.", "It is broken: {b}.", "{b} does not work, please fix.", "Bug report about {b}.",
		},
	},
	before: []string{"", "", "To the team: ", "New bug. ", "One question. "},
	after:  []string{"", "", " Can you fix it?", " It worked in the last release.", " Seen on two machines."},
}

// noiseWords make train issues less regular than their templates, so that a policy
// reads names and numbers and does not learn sentences by heart.
var noiseWords = strings.Fields("today we saw this on the main page after an update and nobody knows why it happens every time " +
	"users open report from team about order list numbers long story short one more thing check again maybe same problem " +
	"with last version can you see please think values result called makes equal docs say works here there what which " +
	"before since still not only")

// issue writes what a user says about b. Noise belongs to train.
func (w *world) issue(d *dice, b *Bug, f *family) string {
	book := &evalPhrases
	if w.Split == SplitTrain {
		book = &trainPhrases
	}
	text := pick(d, book.sentences[b.Phrasing])
	before, after := pick(d, book.before), pick(d, book.after)
	if w.Split == SplitTrain {
		if d.percent(30) {
			text = garble(d, text)
		}
		if d.percent(20) {
			before = noise(d) + ". "
		}
		if d.percent(20) {
			after = " " + noise(d) + "."
		}
	}
	text = strings.NewReplacer("{c}", b.Case.Call, "{g}", b.Got, "{w}", b.Case.Want, "{n}", b.Name, "{b}", pick(d, f.about)).Replace(text)
	return before + text + after
}

// garble replaces one word that says nothing about the bug.
func garble(d *dice, text string) string {
	w := strings.Split(text, " ")
	var free []int
	for i := range w {
		if !strings.Contains(w[i], "{") {
			free = append(free, i)
		}
	}
	if len(free) > 0 {
		w[pick(d, free)] = pick(d, noiseWords)
	}
	return strings.Join(w, " ")
}

func noise(d *dice) string {
	w := make([]string, d.between(2, 6))
	for i := range w {
		w[i] = pick(d, noiseWords)
	}
	return strings.Join(w, " ")
}
