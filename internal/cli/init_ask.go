package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
)

// ask asks each question that no flag answers, until the answer is valid. The end of the input is
// an error: ask guesses nothing.
func (s *start) ask(ctx context.Context, in *bufio.Reader, out io.Writer, given *pflag.FlagSet) error {
	for _, q := range []struct {
		flag, question string
		moot           func() bool
		answer         func(string) error
	}{
		{"without-liqo", "Does this cluster run Liqo? [Y/n]", nil, s.answerLiqo},
		{"cluster-id",
			"What is its name in the federation? (empty: Liqo's cluster ID, or without Liqo the UID of kube-system)",
			nil, func(text string) error { s.clusterID = text; return s.checkName() }},
		{"join", "What is the join token of the broker's operator? (empty: the cluster has already joined)",
			nil, func(text string) error { s.token = text; return s.checkToken() }},
		{"broker-url", "What is the URL of the broker? (empty: the one in the token)",
			func() bool { return s.token == "" }, func(text string) error { s.brokerURL = text; return nil }},
		{"image", "Which image of Bourse does the agent run, such as REGISTRY/bourse:TAG?",
			nil, func(text string) error { s.image = text; return s.checkImage() }},
		{"share", "How many percent of its nodes may others reserve? (empty: nothing)",
			func() bool { return len(s.hub) > 0 }, s.answerShare},
		{"cap", "Which upper bounds for single resources, such as cpu=16,memory=64Gi? (empty: none)",
			s.sharesNothing, s.answerCaps},
		{"visible-to", "Which clusters may see it, such as rome,oslo? (empty: every member)",
			s.sharesNothing, func(text string) error { s.visibleTo = list(text); return s.check() }},
		{"allow", "Which CEL expression over consumer and request must a reservation satisfy? (empty: none)",
			s.sharesNothing, func(text string) error { s.allow = text; return s.check() }},
		{"connector-url", "At which URL can others reach it while the broker is away? (empty: none)",
			nil, func(text string) error { s.connector = text; return s.checkConnector() }},
	} {
		if given.Changed(q.flag) || q.moot != nil && q.moot() {
			continue
		}
		for {
			fmt.Fprintf(out, "%s ", q.question)
			line, err := readLine(ctx, in)
			if err != nil {
				fmt.Fprintln(out)
				return api.Errorf(api.CodeInvalid, "--%s has no answer; nothing was changed", q.flag).
					Fix("answer the question, or give the flag")
			}
			wrong := q.answer(line)
			if wrong == nil {
				break
			}
			fmt.Fprintln(out, wrong)
		}
	}
	return nil
}

func (s *start) sharesNothing() bool { return s.share == 0 && len(s.hub) == 0 }

func (s *start) answerLiqo(text string) error {
	switch strings.ToLower(text) {
	case "", "y", "yes":
		s.withoutLiqo = false
	case "n", "no":
		s.withoutLiqo = true
	default:
		return api.Invalid("--without-liqo", "%.40q is neither yes nor no", text).Fix("answer y or n")
	}
	return nil
}

func (s *start) answerShare(text string) (err error) {
	if s.share, err = strconv.Atoi(cmp.Or(strings.TrimSuffix(text, "%"), "0")); err != nil {
		return api.Invalid("--share", "%.40q is not a percentage", text).Fix("give 0 to 100")
	}
	return s.check()
}

func (s *start) answerCaps(text string) error {
	if s.caps = nil; text == "" {
		return s.check()
	}
	return cmp.Or(readAmounts(&s.caps, "--cap", strings.Join(list(text), ",")), s.check())
}

// list splits an answer at its commas.
func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
