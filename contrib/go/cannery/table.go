package cannery

import "strings"

// ruleTable holds rules in their order, and finds those that can match a path by its first segment.
type ruleTable[R any] struct {
	all []R
	// bySegment holds the numbers of the rules whose patterns begin with a literal segment.
	bySegment map[string][]int32
	// anywhere holds the numbers of the other rules.
	anywhere []int32
}

func newRuleTable[R any](rules []R, pattern func(*R) []piece) ruleTable[R] {
	t := ruleTable[R]{all: rules, bySegment: map[string][]int32{}}
	for i := range rules {
		if segment, ok := firstSegment(pattern(&rules[i])); ok {
			t.bySegment[segment] = append(t.bySegment[segment], int32(i))
		} else {
			t.anywhere = append(t.anywhere, int32(i))
		}
	}
	return t
}

// firstSegment returns the first segment of all paths that a pattern matches, or false if it isn't the same for all of them.
func firstSegment(pattern []piece) (string, bool) {
	if len(pattern) == 0 || pattern[0].kind != literal {
		return "", false
	}
	segment, _, hasSlash := strings.Cut(pattern[0].text, "/")
	return segment, hasSlash || len(pattern) == 1
}

// each calls visit, in order, for the rules that can match a path, which has no leading slash, until visit returns false.
func (t *ruleTable[R]) each(path string, visit func(*R) bool) {
	segment, _, _ := strings.Cut(path, "/")
	near, anywhere := t.bySegment[segment], t.anywhere
	for len(near) > 0 || len(anywhere) > 0 {
		var next int32
		if len(anywhere) == 0 || len(near) > 0 && near[0] < anywhere[0] {
			next, near = near[0], near[1:]
		} else {
			next, anywhere = anywhere[0], anywhere[1:]
		}
		if !visit(&t.all[next]) {
			return
		}
	}
}
