"""What people type wrong, command by command, and a part of the one sentence that each is answered with."""

from __future__ import annotations

AMPLIFY = "amplify --users 1000 --delta 1e-6"
PLAN = "plan --epsilon 1 --delta 1e-6"
COLLECT = "collect age.json --input ages.csv --column age --no-ledger --out out"
ESTIMATE = "estimate age.json --input shuffled --no-ledger --out out"
BAD_COMMANDS: list[tuple[str, str]] = [
    # --- amplify
    (
        f"{AMPLIFY} --mechanism kr --epsilon-local 1 --set options=4",
        "mechanism must be one of the catalogue, such as 'krr', which may be",
    ),
    (f"{AMPLIFY} --mechanism krr --epsilon-local 1", "krr: setting options is missing; add --set options=…."),
    (
        f"{AMPLIFY} --mechanism krr --epsilon-local 1 --set options=4 --set option=5",
        "krr: expected settings among options, got 'option'.",
    ),
    (f"{AMPLIFY} --mechanism krr --epsilon-local 1 --set options", "amplify: --set takes name=value, got 'options'."),
    (f"{AMPLIFY} --mechanism krr --epsilon-local 1 --set options=four", "krr: options must be a number, got 'four'."),
    (f"{AMPLIFY} --mechanism krr --epsilon-local 1 --set options=1", "KRR: options must be at least 2, got 1."),
    (
        f"{AMPLIFY} --mechanism krr --epsilon-local -1 --set options=4",
        "KRR: epsilon must be above 0 and finite, got -1.0.",
    ),
    (f"{AMPLIFY} --mechanism krr --epsilon-local nan --set options=4", "KRR: epsilon must be a number, got NaN."),
    (
        f"{AMPLIFY} --epsilon-local 1 --epsilon-local 2",
        "amplify: --epsilon-local was given twice, and takes one value;",
    ),
    (f"{AMPLIFY} --epsilon-local 1 --set options=4", "amplify: --set needs --mechanism."),
    (f"{AMPLIFY} --mechanism krr --set options=4", "krr: --mechanism needs --epsilon-local."),
    (f"{AMPLIFY} --epsilon-local 1 --plot", "Option '--plot' requires an argument."),
    (f"{AMPLIFY} --epsilon-local 1 --rate 5%", "amplify: rate needs of, the number of people"),
    (
        f"{AMPLIFY} --epsilon-local 1 --plot c.png --against time",
        "amplify: --against must be one of users, rounds,",
    ),
    (f"{AMPLIFY} --epsilon-local inf", "amplify: epsilon_local must be above 0 and finite, got inf."),
    ("amplify 1000 --delta 1e-6 --epsilon-local 1", "Got unexpected extra argument(s) (1000)."),
    (
        "amplify --users 1k --delta 1e-6 --epsilon-local 1",
        "such as 5000000, 5,000,000 or 5e6, got '1k'.",
    ),
    (
        "amplify --users 9 --delta 0.1% --epsilon-local 1",
        "Invalid value for '--delta': expected a number such as",
    ),
    (
        "calibrate --epsilon 1 --delta 1e-6 --find users",
        "calibrate: give --mechanism, --table, --epsilon-local, or",
    ),
    (
        "compare --users 9 --delta 1e-6 --epsilon-local 1 --plot c.jpg",
        "compare: --plot must end in .png, .pdf or .svg,",
    ),
    ("tradeoff --users 1000", "tradeoff: give --mechanism, --table, --epsilon-local, or --p, --beta and"),
    ("mechanisms --task frequencies", "got 'frequencies'; did you mean 'frequency'?"),
    ("mechanisms --set options=4", "No such option: --set."),
    (f"{AMPLIFY} --epsilon-local one", "Invalid value for '--epsilon-local': expected a number such as 0.5 or 1e-8."),
    (f"{AMPLIFY} --epsilon-local 1 --bound clones", "amplify: bound must be one of best, all-crowds, analytic,"),
    (f"{AMPLIFY} --epsilon-local 1 --epsilon 2", "amplify: give either --delta (to get ε) or --epsilon (to get δ)."),
    (f"{AMPLIFY} --epsilon-local 1 --colluding 1000", "amplify: colluding must be below users = 1000, got 1000."),
    (f"{AMPLIFY} --epsilon-local 1 --effort best", "amplify: effort must be 'full' or 'quick', got 'best'."),
    (f"{AMPLIFY} --epsilon-local 1 --rate 2", "amplify: rate must be above 0 and at most 1, got '2'."),
    (f"{AMPLIFY} --epsilon-local 1 --of 100", "amplify: of must be at least the 1000 users who are drawn, got 100."),
    (f"{AMPLIFY} --epsilon-local 1 --rounds 0", "amplify: rounds must be at least 1, got 0."),
    (f"{AMPLIFY} --epsilon-local 1 --rounds 1.5", "amplify: rounds must be a whole number of at least 1, got 1.5."),
    (
        f"{AMPLIFY} --epsilon-local 1 --curve nowhere/curve.csv",
        "amplify: could not write the curve to nowhere/curve.csv: there is no",
    ),
    (
        f"{AMPLIFY} --epsilon-local 1 --plot curve.gif",
        "amplify: --plot must end in .png, .pdf or .svg, got 'curve.gif'.",
    ),
    (
        f"{AMPLIFY} --epsilon-local 1 --against rounds",
        "amplify: --against is about the figure; add --plot FILE or --curve",
    ),
    (f"{AMPLIFY} --epsilon-local 1 --report told.docx", "amplify: --report must end in .md or .html, got 'told.docx'."),
    (f"{AMPLIFY} --table nowhere.csv", "FromTable: cannot read nowhere.csv: No such file or directory."),
    (f"{AMPLIFY} --table ages.csv", "FromTable: ages.csv, line 1, column 1: expected a probability, got"),
    (f"{AMPLIFY} --p 0.5 --beta 0.1 --q 2", "amplify: p must be above 1 (infinity is allowed), got 0.5."),
    (f"{AMPLIFY} --p 2 --beta 2 --q 2", "amplify: beta must be between 0 and (p-1)/(p+1) = 0.3333333333333333"),
    (
        "amplify --users 1000 --delta 1 --epsilon-local 1",
        "amplify: delta must be between 0 and 1, both excluded, got 1.0.",
    ),
    (
        "amplify --users 1,5 --delta 1e-6 --epsilon-local 1",
        "Invalid value for '--users': expected a number such as 5000000,",
    ),
    ("amplify --users -5 --delta 1e-6 --epsilon-local 1", "amplify: users must be at least 1, got -5."),
    ("amplify --delta 1e-6 --epsilon-local 1", "amplify: give --users, or --of and --rate."),
    ("amplify --users 1000 --epsilon-local 1", "amplify: give either --delta (to get ε) or --epsilon (to get δ)."),
    (
        "amplify --user 1000 --delta 1e-6 --epsilon-local 1",
        "No such option: --user (Possible options: --curve, --set, --users).",
    ),
    ("amplfy --users 1000", "No such command 'amplfy'. Did you mean 'amplify'?"),
    # --- calibrate
    ("calibrate --epsilon 1 --delta 1e-6", "calibrate: users must be given, unless it is the searched setting."),
    ("calibrate --epsilon 0 --delta 1e-6 --users 1000", "calibrate: epsilon must be above 0 and finite, got 0.0."),
    (
        "calibrate --epsilon 1 --delta 0 --users 1000",
        "calibrate: delta must be between 0 and 1, both excluded, got 0.0.",
    ),
    (
        "calibrate --epsilon 1 --delta 1e-6 --users 1000 --find colour",
        "calibrate: find must be one of epsilon_local, users, rounds,",
    ),
    (
        "calibrate --epsilon 1 --delta 1e-6 --users 1000 --mechanism oeu --set options=4",
        "mechanism must be one of all-answered, balcer-cheu, balcer-uniform,",
    ),
    (
        "calibrate --epsilon 1 --delta 1e-6 --users 1000 --epsilon-local 1",
        "calibrate: --epsilon-local is the searched setting; leave it out.",
    ),
    # --- compare, crowd, tradeoff
    (
        "compare --users 1000 --delta 2 --epsilon-local 1",
        "compare: delta must be between 0 and 1, both excluded, got 2.0.",
    ),
    ("compare --users 1000 --delta 1e-6", "compare: give --mechanism, --table, --epsilon-local, or --p, --beta and"),
    (
        "compare --users 1000 --delta 1e-6 --mechanism krr --epsilon-local 1 --set options=0",
        "KRR: options must be at least 2, got 0.",
    ),
    ("crowd --group 1:100", "crowd: give either --delta (to get ε) or --epsilon (to get δ)."),
    ("crowd --group 1 --delta 1e-6", "crowd: --group takes EPSILON:USERS or TABLE.csv:USERS, got '1'."),
    ("crowd --group one:100 --delta 1e-6", "FromTable: cannot read one: No such file or directory."),
    ("crowd --group 1:many --delta 1e-6", "crowd: --group takes EPSILON:USERS or TABLE.csv:USERS, got '1:many'."),
    ("crowd --group 1:100 --delta 1e-6", "crowd: --group EPSILON:USERS needs --mechanism."),
    (
        "crowd --group 1:100 --group 1:200 --delta 1e-6 --mechanism krr --set options=4",
        "crowd: expected each --group once; add up the users of equal ones.",
    ),
    ("crowd --group nowhere.csv:100 --delta 1e-6", "FromTable: cannot read nowhere.csv: No such file or directory."),
    ("tradeoff --users 9 --epsilon-local 1 --fpr 2", "tradeoff: fpr must be between 0 and 1, got 2.0."),
    (
        "tradeoff --users 9 --epsilon-local 1 --prior 1",
        "tradeoff: prior must be between 0 and 1, both excluded, got 1.0.",
    ),
    # --- mechanisms, audit, verify
    ("mechanisms krrr", "mechanism must be one of the catalogue, such as 'krr', which may be"),
    ("mechanisms krr --task mean", "mechanisms: give NAME or --task, not both."),
    ("mechanisms --task means", "mechanisms: task must be one of frequency, mean, sum, count, variance,"),
    ("audit", "audit: give either --mechanism or --command."),
    (
        "audit --mechanism krr --epsilon-local 1 --set options=4 --value 0",
        "audit: --value must be given exactly twice, got 1.",
    ),
    (
        "audit --mechanism krr --epsilon-local 1 --set options=4 --confidence 95",
        "audit: confidence must be between 0 and 1, both excluded, got 95.0.",
    ),
    (
        "audit --mechanism krr --epsilon-local 1 --set options=4 --samples 0",
        "audit: samples must be at least 100, got 0.",
    ),
    (
        "audit --mechanism krr --epsilon-local 1 --set options=4 --value 0 --value 9",
        "KRR: values must be from 0 to 3, got 9.",
    ),
    ("verify nowhere.json", "verify: cannot read nowhere.json: No such file or directory."),
    ("verify ages.csv", "certificate: expected JSON, got: Expecting value: line 1 column 1 (char"),
    ("verify age.json", "certificate: the certificate lacks the field 'statement'."),
    # --- plan
    (f"{PLAN} --task mean --users 1000", "plan: this task needs --low."),
    (
        f"{PLAN} --task mean --users 1000 --low 5 --high 1",
        "plan: low must be below high and both finite, got 5.0 and 1.0.",
    ),
    (f"{PLAN} --task frequency --users 1000", "plan: this task needs --domain or --categories FILE."),
    (f"{PLAN} --task frequency --users 1000 --domain 1", "plan: domain must be at least 2, got 1."),
    (
        f"{PLAN} --task frequency --users 1000 --categories nowhere.txt",
        "plan: cannot read nowhere.txt: No such file or directory; expected a text file",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --categories twice.txt",
        "plan: categories must be different, got 'tea' twice.",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --domain 4 --mechanism laplace",
        "plan: mechanism must be one of balcer-cheu, balcer-uniform,",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --domain 4 --mechanism krrr",
        "plan: mechanism must be one of balcer-cheu, balcer-uniform,",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --domain 4 --out nowhere/plan.json",
        "plan: expected a file in an existing directory to write to, got",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --domain 4 --minimum 2000",
        "plan: minimum must be at most the 1000 planned users, got",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --domain 4 --rests-on nobody",
        "plan: rests-on must be local, shuffler or shuffler-noise, got 'nobody'.",
    ),
    (f"{PLAN} --task set-valued --users 1000 --domain 4", "plan: this task needs --items."),
    (
        f"{PLAN} --task set-valued --users 1000 --domain 4 --items 5",
        "plan: items must be at most the 4 options, got 5.",
    ),
    (f"{PLAN} --task location --users 1000 --west 0 --east 1", "plan: this task needs --south."),
    (
        f"{PLAN} --task location --users 1000 --west 1 --east 0 --south 0 --north 1",
        "plan: west must be below east and both finite, got 1.0 and 0.0.",
    ),
    (
        f"{PLAN} --task heavy-hitters --users 1000",
        "plan: give either strings (most bytes of a text) or bits (of a whole",
    ),
    (
        f"{PLAN} --task heavy-hitters --users 1000 --strings 8 --bits 8",
        "plan: give either strings (most bytes of a text) or bits (of a whole",
    ),
    (f"{PLAN} --task vector-mean --users 1000", "plan: this task needs --dimension."),
    (f"{PLAN} --task marginals --users 1000", "plan: this task needs --question or --questions, one for each column."),
    (
        f"{PLAN} --task marginals --users 1000 --question frequency:a:1:domain=2 --ways 3",
        "plan: ways must be at most 2, got 3.",
    ),
    (
        f"{PLAN} --users 1000 --question frequency:a:1:domain=2 --question frequency:a:1:domain=2",
        "plan: expected each question once, got 'a (frequency)' twice.",
    ),
    (
        f"{PLAN} --users 1000 --question frequency",
        "plan: a question is NAME:COLUMN:WEIGHT:OPTION=VALUE,…, got 'frequency'.",
    ),
    (
        f"{PLAN} --users 1000 --question colour:a:1:domain=2",
        "plan: a question begins with a mechanism, such as krr, or with one of",
    ),
    (
        f"{PLAN} --users 1000 --question frequency:a:heavy:domain=2",
        "plan: question 'a': weight must be a number, got 'heavy'.",
    ),
    (f"{PLAN} --users 1000 --questions nowhere.toml", "plan: cannot read nowhere.toml: No such file or directory."),
    (
        f"{PLAN} --users 1000 --questions ages.csv",
        "plan: expected TOML in ages.csv, got: Expected '=' after a key in a",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --categories twice.txt --domain 2",
        "plan: give either --domain or --categories,",
    ),
    (
        f"{PLAN} --task frequency --users 1000 --categories tea,milk",
        "No such file or directory; expected a text file with one value per line.",
    ),
    (f"{PLAN} --task frequency --users 1000 --domain 4 --mechanism wraner", "got 'wraner'; did you mean 'krr'?"),
    (f"{PLAN} --task frequency --users 9 --domain 4 --mechanism piecewise", "got 'piecewise', which is for mean."),
    (
        f"{PLAN} --task mean --users 1000 --low 0 --high 1e400",
        "plan: low must be below high and both finite, got 0.0 and inf.",
    ),
    (f"{PLAN} --task count --users 1000 --low 0 --high 1", "plan: --low does not go with --task count."),
    (
        f"{PLAN} --task vector-mean --users 1000 --dimension 3 --low 0 --low 1 --high 5 --high 6",
        "plan: expected an interval for each of 3 coordinates, got 2.",
    ),
    (
        f"{PLAN} --task location --users 9 --west 0 --east 10 --south -100 --north 10 --degrees",
        "and be at most 360 wide, got latitudes -100 to 10 and longitudes 0 to 10.",
    ),
    (f"{PLAN} --users 1000 --question mean:age:low=0,high=5", "plan: question 'age': weight must be a number, got"),
    (f"{PLAN} --users 1000 --question frequency:a:1:domain=4 --column a", "plan: --column needs --input."),
    # --- simulate
    ("simulate age.json --seed x", "Invalid value for '--seed': expected a number such as 0.5 or 1e-8."),
    ("simulate age.json --users 1e6.5", "expected a number such as 5000000, 5,000,000 or 5e6, got '1e6.5'."),
    ("simulate nowhere.json", "plan: cannot read nowhere.json: No such file or directory."),
    ("simulate ages.csv", "plan: expected JSON, got: Expecting value: line 1 column 1 (char 0)."),
    ("simulate age.json --users 0", "simulate: users must be at least 1, got 0."),
    ("simulate age.json --repeat 0", "simulate: repeat must be at least 1, got 0."),
    ("simulate age.json --confidence 95", "Invalid value for '--confidence': expected a share below the whole,"),
    ("simulate age.json --confidence sure", "Invalid value for '--confidence': expected a share below the whole,"),
    ("simulate age.json --options options.txt", "simulate: the task 'mean' estimates everything; options are for"),
    # --- collect, encode, shuffle, estimate
    (f"{COLLECT} --ledger book", "collect: give either --ledger or --no-ledger, not both."),
    (f"{COLLECT} --report told.pdf", "collect: --report must end in .md or .html, got 'told.pdf'."),
    ("collect age.json --input ages.csv --no-ledger", "Missing option '--out'."),
    ("collect --input ages.csv --no-ledger --out out", "Missing argument 'PLAN'."),
    ("collect age.json --no-ledger --out out", "Missing option '--input'."),
    (
        "collect age.json --input ages.csv --ledger nowhere --out out",
        "ledger: there is no ledger at nowhere; create it by",
    ),
    ("verify age.json age.json", "Got unexpected extra argument(s) (age.json)."),
    ("ask full --range 5", "ask: --range takes the first and the last value, got 5."),
    ("ask full --quantile half", "expected a number such as 5000000, 5,000,000 or 5e6, got 'half'."),
    (f"{COLLECT} --confidence 95", "Invalid value for '--confidence': expected a share below the whole,"),
    (f"{COLLECT} --confidence 100%", "Invalid value for '--confidence': expected a share below the whole,"),
    (f"{COLLECT} --post rounded", "collect: --post must be non-negative, adds-up or consistent, got"),
    (f"{COLLECT} --post adds-up", "collect: --post adds-up does not go with the task 'mean', whose"),
    (f"{COLLECT} --results table.xlsx", "collect: --results must end in .csv, .parquet or .json, got"),
    (
        f"{COLLECT} --results nowhere/table.csv",
        "collect: could not write the results to nowhere/table.csv: there is no",
    ),
    (f"{COLLECT} --engine hadoop", "collect: engine must be one of embedded, spark, got 'hadoop'."),
    (f"{COLLECT} --round 2", "plan: round must be at most 1, as planned, got 2."),
    (f"{COLLECT} --drawn", "collect: --drawn is for plans whose users are drawn out of more people"),
    (f"{COLLECT} --options options.txt", "collect: the task 'mean' estimates everything; options are for"),
    (f"{COLLECT} --missing ignore", "input: missing must be one of refuse, drop, category, empty, got"),
    (f"{COLLECT} --longer cut", "input: longer must be one of refuse, sample, got 'cut'."),
    (f"{COLLECT} --gather", "input: gather needs the column of the users (--user), and takes all of"),
    (
        "collect nowhere.json --input ages.csv --no-ledger --out out",
        "plan: cannot read nowhere.json: No such file or directory.",
    ),
    (
        "collect ages.csv --input ages.csv --no-ledger --out out",
        "plan: expected JSON, got: Expecting value: line 1 column 1 (char 0).",
    ),
    (
        "collect age.json --input ages.csv --no-ledger --out ages.csv",
        "collect: expected a directory for the output, got the file ages.csv.",
    ),
    (
        "collect age.json --input ages.csv --no-ledger --out full",
        "collect: expected an empty directory, but full has 'kept'.",
    ),
    (
        "collect age.json --input few.csv --no-ledger --out out",
        "collect: 2 users took part where 1000 were planned, which gives ε =",
    ),
    (
        "encode age.json --input ages.csv --out full",
        "encode: full exists already; encoding the same people again would",
    ),
    (
        "encode age.json --input ages.csv --out new --seal nowhere.json",
        "campaign: cannot read nowhere.json: No such file or directory.",
    ),
    ("shuffle ages.csv --out out", "messages: ages.csv is not a file of messages from `shuffledp encode`."),
    ("shuffle nowhere.messages --out out", "messages: expected a file or a directory of .messages files, got"),
    ("shuffle ages.csv --out out --reservation 1", "shuffle: --reservation needs --plan."),
    (ESTIMATE, "messages: shuffled has no _manifest.json: it is not a directory from"),
    (f"{ESTIMATE} --reservation 1", "messages: shuffled has no _manifest.json: it is not a directory from"),
    ("estimate age.json --input full --no-ledger --out full", "estimate: expected a new or empty directory, got full."),
    # --- ask, release
    ("ask full", "ask: expected --range FIRST LAST or --quantile SHARE, got neither."),
    ("ask full --range 1 2", "ask: expected the directory of a finished collection, got full."),
    ("ask full --quantile 0.5 --confidence 2", "Invalid value for '--confidence': expected a share below the whole,"),
    (
        "release --plan age.json --day 1 --state state --out out --no-ledger",
        "release: expected a plan for the task 'counts over time', got",
    ),
    # --- ledger
    ("ledger create --ledger ages.csv", "ledger: ages.csv is already there; a ledger is created only once."),
    ("ledger show --ledger nowhere", "ledger: there is no ledger at nowhere; create it by `shuffledp ledger"),
    (
        "ledger register somebody --ledger nowhere",
        "ledger: there is no ledger at nowhere; create it by `shuffledp ledger",
    ),
    (
        "ledger budget test --epsilon -1 --delta 1e-6 --ledger book",
        "ledger: epsilon must be above 0 and finite, got -1.0.",
    ),
    (
        "ledger budget nobody --epsilon 1 --delta 1e-6 --ledger book",
        "ledger: book knows no population 'nobody'; it knows everyone, test. A",
    ),
    ("ledger forget 123 --ledger book", "ledger: there is no collection 123 in book."),
    ("ledger check --report ages.csv --ledger book", "report: ages.csv quotes no ledger."),
    ("ledger show --report told.md --ledger book", "ledger: --report is about one population; add --population NAME."),
    ("ledger reserve nowhere.json --ledger book", "plan: cannot read nowhere.json: No such file or directory."),
    # --- keys, campaigns, the service
    ("keys new full/kept", "keys: full/kept is already there; a key that is lost cannot be made"),
    ("keys show ages.csv", "keys: ages.csv is not a key file; create one with `shuffledp keys new`."),
    ("campaign show ages.csv", 'campaign: expected a file with "format": "shuffledp campaign", version'),
    (
        "campaign create age.json --analyst-key nowhere --shuffler good.json --out new",
        "keys: cannot read nowhere: No such file or directory.",
    ),
    (
        "campaign create age.json --analyst-key analyst.key --shuffler ages.csv --out new",
        "campaign: ages.csv must hold what `shuffledp keys new --shuffler`",
    ),
    (
        "campaign create age.json --analyst-key analyst.key --shuffler shuffler.json --out new",
        "campaign: the shuffler's identity must be 32 bytes in base64url, got",
    ),
    (
        "campaign create age.json --analyst-key analyst.key --shuffler good.json --window soon --out new",
        "campaign: window must be a number of days, hours, minutes or seconds,",
    ),
    ("campaign close abc --state nowhere", "shuffler: there is none in nowhere with keys in nowhere.keys; begin with"),
    ("serve --state nowhere --listen here", "shuffler: there is none in nowhere with keys in nowhere.keys; begin with"),
    (
        "send nowhere.json --input ages.csv --spool new",
        "campaign: cannot read nowhere.json: No such file or directory.",
    ),
    (
        "receive nowhere.json --key analyst.key --out out",
        "campaign: cannot read nowhere.json: No such file or directory.",
    ),
    ("metric amplify --users 100 --delta 1e-6", "metric amplify: give one of --matrix, --points and --range, got 0 of"),
    (
        "metric amplify --users 100 --delta 1e-6 --matrix ages.csv",
        "DistanceMatrix: row 0, column 0 must be a number, got 'age'.",
    ),
]
