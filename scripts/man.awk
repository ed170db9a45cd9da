# SPDX-License-Identifier: MIT
#
# man.awk: makes a page of section 3 of the manual from the comments in a header.
#
#	awk -f scripts/man.awk HEADER doc/PAGE.3.in >PAGE
#
# The header is the source of each contract. The .in file is written by hand, in mdoc: what
# precedes its first .Sh ends the description, its sections follow. Where they have a place
# before ERRORS, as EXAMPLES, they get it.
#
# How a header is read:
#
#  - Its first comment is "name.h: title. Overview". The title ends at the first ".", ":"
#    or ";".
#  - A comment with an empty line behind it is a section, with a heading if it begins with
#    at most six words and "." or ":". Functions without a comment that follow it at once
#    are explained by it.
#  - Each other comment is about the declarations behind it, up to an empty line. Types and
#    constants are shown as they are.
#  - In a comment on functions the results are sentences from one that begins with
#    "Returns", a number or "-EX:", to one that begins with "From", "Switches" or the like.
#    What they say is "0; -EX, -EY: when; -EZ as f()", or such text and then a list.
#  - Lines with a tab are literal text, lines such as "  -EX   when" are a list.
#  - What is called private, or has two underscores in its name, is left out.
#
# A public function without a comment is an error. What follows a comment that begins with
# "Private from here on" is not looked at.

BEGIN {
	result = "-?[0-9]+[;:,.]|-E[A-Z0-9]+(, -E[A-Z0-9]+)*([:;.]| as )|Returns "
	after = "Switches|Do(es)? not |From |By a |Not "
}

# Running text is collected in `line', and pages in `body', which callers may exchange.

function end_line() {
	if (line != "")
		body = body line "\n"
	line = ""
}

function word(w) {
	if (line == "" && w ~ /^[.']/)
		w = "\\&" w
	line = line (line == "" ? "" : " ") w
	if (w ~ /[^.]\.['")]*$/ || length(line) > 80)
		end_line()
}

function literal(text) {
	gsub(/\\/, "\\e", text)
	return text ~ /^[.']/ ? "\\&" text : text
}

function quoted(w) {
	gsub(/\\/, "\\e", w)
	gsub(/"/, "\\(dq", w)
	return w ~ /[ |]/ || w ~ /^[.,:;()!?]$/ ? "\"" w "\"" : w
}

# rr.3 and ll.3 would be found where other programs have pages of these names.
function page_of(name) {
	return name ~ /^(rr|ll)$/ ? "usched-" name : name
}

function has_page(name,   text) {
	if (!(name in page))
		page[name] = (getline text <(folder name ".3.in")) > 0
	return page[name]
}

# The macro of a word without its punctuation, or "".
function macro(w,   name) {
	if (w ~ /^`[^`]+['`]$/)
		return "Fa " quoted(substr(w, 2, length(w) - 2))
	if (w ~ /^\*[a-z_]+$/)
		return "Fa " w
	if (w ~ /^[a-z][a-z0-9_]*\(\)$/)
		return "Fn " substr(w, 1, length(w) - 2)
	if (w ~ /^[a-z][a-z0-9_.]*\([1-8]\)$/)
		return "Xr " substr(w, 1, length(w) - 3) " " substr(w, length(w) - 1, 1)
	if (w ~ /^-E[A-Z0-9]+$/)
		return "Er \\" w
	if (w ~ /^([a-z]+\/)?(u[a-z_]+|rr|ll|sim)\.h$/) {
		name = w
		gsub(/^.*\/|\.h$/, "", name)
		return name != header && has_page(page_of(name)) ? "Xr " page_of(name) " 3" \
			: "Pa " w
	}
	if (w ~ /^(struct|enum|union) ./)
		return "Vt " quoted(w)
	if (w == "NULL" || w ~ /^[A-Z][A-Z0-9]*_[A-Z0-9_]+$/)
		return "Dv " w
	if (w ~ /^[a-z]+_[a-z_]*[a-z]$/ || w == "errno")
		return "Va " w
	return ""
}

function markup(text,   words, n, i, w, m, before, after) {
	n = split(text, words, " ")
	for (i = 1; i <= n; i++) {
		w = words[i]
		before = after = ""
		if ((w ~ /^`[^'`]*$/ && words[i + 1] ~ /^[^'`]*['`][.,;:)]*$/) ||
		    (w ~ /^\(?(struct|enum|union)$/ && words[i + 1] ~ /^[a-z_0-9]+[.,;:)]*$/))
			w = w " " words[++i]
		m = w
		if (m ~ /^\([^)]/) {
			before = " ("
			m = substr(m, 2)
		}
		while (m ~ /[.,;:]$/ || (m ~ /\)$/ && m !~ /\(.*\)$/)) {
			after = " " substr(m, length(m)) after
			m = substr(m, 1, length(m) - 1)
		}
		m = macro(m)
		if (m == "") {
			gsub(/\\/, "\\e", w)
			word(w)
		} else {
			end_line()
			sub(/ /, before "&", m)
			body = body "." m after "\n"
		}
	}
	end_line()
}

function paragraph(text) {
	if (text == "")
		return
	if (!fresh && body !~ /\.Ss [^\n]*\n$/ && overview body != "")
		body = body ".Pp\n"
	fresh = 0
	markup(text)
}

# The head of an item: error numbers, or words.
function item(tag) {
	if (tag ~ /^-E/) {
		gsub(/, */, " , \\", tag)
		body = body ".It Er \\" tag "\n"
	} else
		body = body ".It Li " quoted(tag) "\n"
}

# Paragraphs, lists and literal text: text[from] to text[to].
function show(from, to,   i, para, depth, tag, rest, bullets) {
	for (i = from; i <= to; i++) {
		if (text[i] ~ /^[^ \t]/) {
			para = para (para == "" ? "" : " ") text[i]
			continue
		}
		paragraph(para)
		para = ""
		if (text[i] ~ /^\t/) {
			body = body ".Bd -literal -offset indent\n"
			for (; i <= to && (text[i] ~ /^\t/ || text[i + 1] ~ /^\t/); i++) {
				body = body literal(substr(text[i], 2)) "\n"
			}
			body = body ".Ed\n"
			i--
		} else if (text[i] ~ /^ /) {
			bullets = text[i] ~ /^ +- /
			body = body (bullets ? ".Bl -bullet\n" : ".Bl -tag -width Ds\n")
			while (i <= to && match(text[i], /^ +/)) {
				depth = RLENGTH
				tag = substr(text[i], depth + 1)
				rest = ""
				if (match(tag, bullets ? "- +" : "   *")) {
					rest = substr(tag, RSTART + RLENGTH)
					tag = substr(tag, 1, RSTART - 1)
				}
				for (i++; match(text[i], /^ +/) && RLENGTH > depth && i <= to; i++)
					rest = rest " " substr(text[i], RLENGTH + 1)
				if (bullets)
					body = body ".It\n"
				else
					item(tag)
				markup(bullets ? rest : sentence(rest))
			}
			body = body ".El\n"
			i--
		}
	}
	paragraph(para)
}

function sentence(text) {
	sub(/^ +/, "", text)
	if (text !~ /^([a-z]+[_(.]|(struct|enum|union) )/)
		text = toupper(substr(text, 1, 1)) substr(text, 2)
	return text ~ /[^.:]$/ ? text "." : text
}

# "0; -EX, -EY: when; -EZ as f()" to RETURN VALUES and ERRORS, under `heads'.
function results(heads, from, to,   saved, all, parts, n, i, p, given, codes, list) {
	saved = body
	body = ""
	for (i = from; i <= to && text[i] !~ /^ /; i++)
		all = all (all == "" ? "" : " ") text[i]
	sub(/,? or *$/, "", all)
	fresh = 1
	show(i, to)
	list = body
	sub(/^[^\n]*\n/, "", list)
	sub(/\.El\n$/, "", list)
	n = split(all, parts, /; */)
	all = ""
	for (i = 1; i <= n; i++) {
		p = parts[i]
		if (p !~ /^-E/ && all == "")
			given = given (given == "" ? "" : "; ") p
		else
			all = all (all == "" ? "" : p ~ /^-E/ ? "\n" : "; ") p
	}
	body = ""
	n = split(all, parts, /\n/)
	for (i = 1; i <= n; i++) {
		p = parts[i]
		codes = ""
		while (match(p, /^(and )?-E[A-Z0-9]+,? ?/)) {
			all = substr(p, RSTART, RLENGTH)
			gsub(/and |[, ]/, "", all)
			codes = codes (codes == "" ? "" : ", ") all
			p = substr(p, RLENGTH + 1)
		}
		item(codes)
		sub(/^(also)?[:.] */, "", p)
		markup(sentence(p))
	}
	list = body list
	body = ""
	fresh = 1
	if (from == 1) {                # the function has no other description
		paragraph(sentence(given))
		saved = saved body
		body = ""
		fresh = 1
		sub(/[.] .*/, "", given)
	}
	paragraph(sentence(given))
	if (given != "" && !(body in value_of))
		value[++values] = body
	if (given != "")
		value_of[body] = value_of[body] (value_of[body] != "" ? " ,\n" : "") function_names
	if (list != "")
		failures = failures heads ".Bl -tag -width Ds -compact\n" list ".El\n"
	body = saved
}

function head(names) {
	return names ~ /\n/ ? ".It Xo\n" names "\n.Xc\n" : ".It " substr(names, 2) "\n"
}

function items(on) {
	if (on != in_items)
		body = body (on ? ".Bl -tag -width Ds\n" : ".El\n")
	in_items = on
}

# Joins the lines of paragraphs. Results, and what follows them, begin lines of their own.
function join(   all, apart, i) {
	for (i = 1; i <= lines; i++)
		all = all (i == 1 ? "" : text[i] ~ /^[^ \t]/ && text[i - 1] ~ /^[^ \t]/ ? " " : "\n") text[i]
	while (match(all, "[.] (" result "|" after ")")) {
		apart = apart substr(all, 1, RSTART) "\n"
		all = substr(all, RSTART + 2)
	}
	lines = split(apart all, text, "\n")
	text[lines + 1] = ""
}

# text[1] to text[lines] is about functions[1] to functions[count].
function explain(   heads, i, first, last) {
	for (i = 1; i <= count; i++)
		heads = heads (i > 1 ? " ,\n" : "") ".Fn " functions[i]
	function_names = heads
	heads = head(heads)
	items(1)
	body = body heads
	join()
	for (first = 1; first <= lines && text[first] !~ "^(" result ")"; first++)
		;
	for (last = first; last <= lines && text[last] !~ "^(" after ")"; last++)
		;
	fresh = 1
	show(1, first - 1)
	if (first <= lines)
		results(heads, first, last - 1)
	fresh = body !~ /[.](El|Ed)\n$/
	show(last, lines)
}

# The declarations behind a comment have ended.
function finish(   i) {
	if (!hidden) {
		if (count > 0 && lines == 0 && !after_section) {
			print header ".h: no comment on " functions[1] "()" >"/dev/stderr"
			failed = 1
		}
		if (count > 0)
			explain()
		if (shown != "") {
			items(0)
			fresh = 0
			if (count == 0 && lines > 0)
				show(1, lines)
			body = body ".Bd -literal\n" literal(shown) ".Ed\n"
		}
	}
	if (count > 0 || shown != "")
		after_section = hidden = 0
	lines = count = 0
	shown = ""
}

function section(   words) {
	items(0)
	fresh = 0
	if (match(text[1], /^[A-Z][A-Za-z0-9 ,-]*[.:]/) &&
	    split(substr(text[1], 1, RLENGTH), words, " ") <= 6) {
		body = body ".Ss " substr(text[1], 1, RLENGTH - 1) "\n"
		text[1] = sentence(substr(text[1], RLENGTH + 2) " ")
		sub(/ \.$/, "", text[1])
		fresh = 1
	}
	show(text[1] == "" ? 2 : 1, lines)
	after_section = 1
	lines = 0
}

function head_comment(   i, end) {
	for (i = 1; i <= lines && text[i] != ""; i++)
		title = title (i > 1 ? " " : "") text[i]
	sub(/^[a-z_]+\.h: */, "", title)
	fresh = 1
	if (end = match(title, /[.:;]( |$)/)) {
		paragraph(sentence(substr(title, title ~ /^[^:;]*[.]( |$)/ ? end + 2 : 1)))
		title = substr(title, 1, end - 1)
	}
	show(i, lines)
	overview = body
	body = ""
	lines = 0
}

# A declaration, without comments and bodies, is complete.
function declare(decl,   name, type, args, i, depth, c, arg) {
	gsub(/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)/, "", decl)
	gsub(/[ \t\n]+/, " ", decl)
	gsub(/^ | *;? *$/, "", decl)
	sub(/^(USCHED_INLINE|USCHED_SWITCHES|static inline|extern) /, "", decl)
	if (decl ~ /_PRIVATE|[a-z]__[a-z]/ || decl ~ /^(struct|union|enum) [a-z_]+$/ || decl == "")
		return
	if (decl ~ /^typedef|[{]/ || decl !~ /\(/) {
		if (decl ~ /^(enum|typedef)/ || lines > 0)
			shown = shown raw
		return
	}
	match(decl, /[a-z_0-9]+\(/)
	name = substr(decl, RSTART, RLENGTH - 1)
	type = substr(decl, 1, RSTART - 1)
	args = substr(decl, RSTART + RLENGTH)
	if (type ~ /\(\*$/) {           # it returns a pointer to a function
		i = index(args, "))(")
		type = type substr(args, i + 1)
		args = substr(args, 1, i)
	}
	sub(/ $/, "", type)
	sub(/\)$/, ",", args)
	functions[++count] = name
	names = names (names == "" ? "" : " ,\n") ".Nm " name
	synopsis = synopsis ".Ft " quoted(type) "\n.Fo " name "\n"
	for (i = 1; i <= length(args); i++) {
		c = substr(args, i, 1)
		depth += (c == "(") - (c == ")")
		if (c == "," && depth == 0) {
			sub(/^ /, "", arg)
			synopsis = synopsis ".Fa \"" arg "\"\n"
			arg = ""
		} else
			arg = arg c
	}
	synopsis = synopsis ".Fc\n"
}

# A line of code. `decl' is what there is of a declaration, `raw' that with its comments.
function code(bare,   i, c) {
	raw = decl == "" ? $0 "\n" : raw $0 "\n"
	gsub(/\/\*([^*]|\*[^\/])*\*\//, "", bare)
	if (open && sub(/^.*\*\//, "", bare))
		open = 0
	else if (open)
		bare = ""
	if (sub(/\/\*.*/, "", bare))
		open = 1
	for (i = 1; i <= length(bare); i++) {
		c = substr(bare, i, 1)
		if (c == "{" && depth++ == 0 && decl ~ /\)[ \n]*$/)
			in_body = 1
		if (!in_body)
			decl = decl c
		if (c == "}")
			depth--
		if (depth == 0 && (c == ";" || (in_body && c == "}"))) {
			declare(decl)
			decl = ""
			in_body = 0
		}
	}
	decl = decl ~ /^[ \n]*$/ ? "" : decl "\n"
}

FNR == 1 && !path {
	path = header = FILENAME
	gsub(/^.*\/|\.h$/, "", header)
	folder = ARGV[2]
	sub(/[^\/]*$/, "", folder)
}

FILENAME == ARGV[2] {
	if ($0 ~ /^\.Sh/)
		part = $0 ~ /EXAMPLES|ENVIRONMENT|FILES|DIAGNOSTICS/ ? 2 : 3
	if ($0 !~ /SPDX/)
		written[part + 0] = written[part + 0] $0 "\n"
	next
}

/SPDX/ || closed { next }

# A comment at the top level.
in_comment || (depth == 0 && decl == "" && /^\/\*/) {
	if (!in_comment)
		finish()
	in_comment = $0 !~ /\*\//
	after_comment = !in_comment
	bare = $0
	gsub(/^\/\*+ ?|^ \* ?|^   |[ \t]*\*\/[ \t]*$/, "", bare)
	if ($0 !~ /^(\/\*| \*\/)$/)
		text[++lines] = bare
	text[lines + 1] = ""
	next
}

after_comment {
	after_comment = 0
	if (overview == "" && !headed) {
		headed = 1
		head_comment()
	}
	hidden = text[1] ~ /^Private/ && lines > 0
	closed = text[1] ~ /^Private from here on/
	if ($0 == "" && lines > 0) {
		if (!hidden)
			section()
		lines = 0
	}
}

/^#/ {
	bare = $0
	while ($0 ~ /\\$/ && (getline) > 0)
		bare = bare "\n" $0
	if (lines > 0 && bare ~ /^# *define/ && bare !~ /__/)
		shown = shown bare "\n"
	next
}

depth == 0 && /^(extern "C"|}$)/ { next }

depth == 0 && decl == "" && $0 == "" {
	finish()
	next
}

{ code($0) }

END {
	finish()
	items(0)
	print ".\\\" SPDX-License-Identifier: MIT\n.Dd January 1, 2026"
	print ".Dt " toupper(page_of(header)) " 3\n.Os\n.Sh NAME"
	print (names == "" ? ".Nm " page_of(header) : names) "\n.Nd " title
	printf ".Sh SYNOPSIS\n.In usched/%s\n%s", path, synopsis
	printf ".Sh DESCRIPTION\n%s%s%s", overview, body, written[0]
	if (values)
		print ".Sh RETURN VALUES\n.Bl -tag -width Ds"
	for (i = 1; i <= values; i++)
		printf "%s%s", head(value_of[value[i]]), value[i]
	if (values)
		print ".El"
	printf "%s", written[2]
	if (failures != "")
		printf ".Sh ERRORS\n.Bl -tag -width Ds\n%s.El\n", failures
	printf "%s", written[3]
	exit failed
}
