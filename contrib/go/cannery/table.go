package cannery

import "strings"

// ruleTable holds rules in their order, and finds those that can match a path by a segment.
type ruleTable[R any] struct {
	all []R
	// bySegment holds the numbers of the rules that need a segment. Each rule is listed for the rarest of its literal segments.
	bySegment map[segment][]int32
	// segments is the number of segments at the start of a path that rules are listed for.
	segments int
	// anywhere holds the numbers of the rules without a literal segment.
	anywhere []int32
}

// segment is a segment of a path, with the number of segments before it.
type segment struct {
	position int
	text     string
}

func newRuleTable[R any](rules []R, pattern func(*R) []piece) ruleTable[R] {
	counts := map[segment]int{}
	for i := range rules {
		for _, s := range literalSegments(pattern(&rules[i])) {
			counts[s]++
		}
	}
	t := ruleTable[R]{all: rules, bySegment: map[segment][]int32{}}
	for i := range rules {
		segments := literalSegments(pattern(&rules[i]))
		if len(segments) == 0 {
			t.anywhere = append(t.anywhere, int32(i))
			continue
		}
		rarest := segments[0]
		for _, s := range segments {
			if counts[s] < counts[rarest] {
				rarest = s
			}
		}
		t.bySegment[rarest] = append(t.bySegment[rarest], int32(i))
		t.segments = max(t.segments, rarest.position+1)
	}
	return t
}

// literalSegments returns the segments that all paths have that a pattern matches.
func literalSegments(pattern []piece) (segments []segment) {
	current, isLiteral := segment{}, len(pattern) > 0
	for _, p := range pattern {
		switch p.kind {
		case capture: // It never contains a slash.
			isLiteral = false
		case splat:
			return segments
		default:
			for i, part := range strings.Split(p.text, "/") {
				if i > 0 {
					if isLiteral {
						segments = append(segments, current)
					}
					current, isLiteral = segment{position: current.position + 1}, true
				}
				current.text += part
			}
		}
	}
	if isLiteral {
		segments = append(segments, current)
	}
	return segments
}

// each calls visit, in order, for the rules that can match a path, which has no leading slash, until visit returns false.
func (t *ruleTable[R]) each(path string, visit func(*R) bool) {
	// The lists of rules that aren't visited yet, in an array that is usually large enough.
	lists := append(make([][]int32, 0, 8), t.anywhere)
	rest, more := path, true
	for position := 0; position < t.segments && more; position++ {
		var text string
		text, rest, more = strings.Cut(rest, "/")
		if list := t.bySegment[segment{position, text}]; len(list) > 0 {
			lists = append(lists, list)
		}
	}

	for {
		var first *[]int32
		for i := range lists {
			if len(lists[i]) > 0 && (first == nil || lists[i][0] < (*first)[0]) {
				first = &lists[i]
			}
		}
		if first == nil || !visit(&t.all[(*first)[0]]) {
			return
		}
		*first = (*first)[1:]
	}
}
