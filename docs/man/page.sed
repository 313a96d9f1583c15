# What help2man makes of the programs' --help, as manual pages have it.
s/^\\fB\\-h\\fR,\\-\\-help/\\fB\\-h\\fR, \\fB\\-\\-help\\fR/
s/^\.SS "Exit status:"/.SH "EXIT STATUS"/
/^\.SS ".*:"/ {
  s/:"$/"/
  n
  s/^\.IP$/.PP/
}
