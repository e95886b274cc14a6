package binary

// body is the code of a function, its locals included, and what was found in it as
// it was read.
type body struct {
	code []byte
	surveyed
}

type surveyed struct {
	begin   int     // of the instructions
	locals  uint32  // how many, without the parameters
	entry   int64   // what is to be counted on entry; 0: nothing
	loops   []int64 // what is to be counted at each loop's head
	moves   bool    // it moves memory
	data    bool    // it refers to data segments by number
	changes string  // an instruction that changes neither memory nor globals; "" if there is none
}

// survey weighs the parts of a function. A part is a loop without the loops inside
// it, or what is in no loop. Within a part control only goes forward, so that
// passing its head once means executing none of its instructions twice.
func survey(b []byte) (surveyed, error) {
	r := &reader{b: b}
	var s surveyed
	for n := r.count(); n > 0 && r.err == nil; n-- {
		more := r.u32()
		if r.valueType(); uint64(s.locals)+uint64(more) > 50_000 {
			r.failf("more than 50,000 locals")
		}
		s.locals += more
	}
	s.begin = r.at

	const outside = -1 // in no loop
	var (
		outer    int64            // weight of what is outside
		calls    bool             // something is called outside
		straight = true           // so far everything is executed
		first    bool             // a loop is entered in any case
		parts    = []int{outside} // of the blocks around the instruction
	)
	for len(parts) > 0 && r.err == nil {
		part := parts[len(parts)-1]
		i := r.instruction()
		switch i.op {
		case opLoop:
			first = first || straight
			parts = append(parts, len(s.loops))
			s.loops = append(s.loops, 1)
		case opBlock, opIf:
			parts = append(parts, part)
		case opEnd:
			parts = parts[:len(parts)-1]
		}
		switch i.op {
		case opIf, opElse, opBr, opBrIf, opBrTable, opReturn, opUnreachable:
			straight = false
		case opCall, opCallIndirect, opReturnCall, opReturnCallIndirect:
			straight = false
			calls = calls || part == outside
		case opMemoryCopy, opMemoryFill:
			s.moves = true
		case opMemoryInit:
			s.moves, s.data = true, true
		case opTableSet, opTableInit, opTableCopy, opTableGrow, opTableFill, opElemDrop:
			s.changes = changing[i.op]
		case opDataDrop:
			s.data, s.changes = true, changing[i.op]
		}
		if part == outside {
			outer++
		} else {
			s.loops[part]++
		}
	}
	if r.err == nil && !r.done() {
		r.failf("goes on behind its end")
	}
	if outer > light || calls && !first {
		s.entry = outer
	}
	return s, r.err
}

// changing are the instructions that change what is neither memory nor a global.
var changing = map[uint32]string{
	opTableSet:  "table.set",
	opTableInit: "table.init",
	opTableCopy: "table.copy",
	opTableGrow: "table.grow",
	opTableFill: "table.fill",
	opElemDrop:  "elem.drop",
	opDataDrop:  "data.drop",
}
