package resptest

import "strings"

// Hello is the reply to HELLO 3.
const Hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n" +
	"$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n" +
	"$4\r\nrole\r\n$6\r\nmaster\r\n" +
	"$7\r\nmodules\r\n*1\r\n%2\r\n$4\r\nname\r\n$2\r\nbf\r\n$4\r\nargs\r\n*0\r\n"

// Ordinary holds streams that servers send, each with the number of commands that ask for it.
var Ordinary = map[string]int{
	">1\r\n$17\r\nabcdefghsubscribe\r\n>1\r\n+abcdefghsubscribe and more\r\n": 0,
	Hello:                             1,
	"+OK\r\n:128\r\n$-1\r\n_\r\n":     4,
	"*3\r\n:1\r\n:2\r\n:1\r\n*-1\r\n": 2,
	"-NOSCRIPT No matching script. Please use EVAL.\r\n!5\r\nERR x\r\n":                         2,
	">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n:1\r\n":                                      1,
	">2\r\n+invalidate\r\n_\r\n":                                                                0,
	">3\r\n$7\r\nunknown\r\n:1\r\n#t\r\n":                                                       0,
	"|1\r\n+a\r\n,0.5\r\n:1\r\n*2\r\n:1\r\n|1\r\n+a\r\n#f\r\n:2\r\n":                            2,
	"|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n>2\r\n|0\r\n+invalidate\r\n*0\r\n":                     0,
	"=15\r\ntxt:Some string\r\n,inf\r\n(3492890328409238509324850\r\n~0\r\n":                    4,
	"$0\r\n\r\n$2\r\n\r\n\r\n":                                                                  2,
	"|2000\r\n" + strings.Repeat(":1\r\n", 4001) + "*5000\r\n" + strings.Repeat(":1\r\n", 5000): 2,
	":-9223372036854775808\r\n:9223372036854775807\r\n":                                         2,
}

// Hostile holds streams that no server should send after one command, each with a part of the
// error.
var Hostile = map[string]string{
	"+OK\r\n+OK\r\n":                         "no command asked for",
	">2\r\n+a\r\n+b\r\n:1\r\n-ERR again\r\n": "no command asked for",
	"|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n":         "no command asked for",
	"?":                                      "unknown type",
	"\r\n":                                   "unknown type",
	"HTTP/1.1 400 Bad Request\r\n":           "unknown type",
	".\r\n":                                  "unknown type",
	";4\r\nabcd\r\n":                         "unknown type",
	"*1\r\n.\r\n":                            "unknown type",
	"$-2\r\n":                                "of length -2",
	"=-1\r\n":                                "of length -1",
	"*-2\r\n":                                "of length -2",
	"%-1\r\n":                                "of length -1",
	">-1\r\n":                                "of length -1",
	"|-1\r\n":                                "of length -1",
	"$?\r\n":                                 "in its line",
	"*?\r\n":                                 "in its line",
	"$\r\n":                                  "in its line",
	":-\r\n":                                 "in its line",
	":1e9\r\n":                               "in its line",
	":9223372036854775808\r\n":               "in its line",
	":99999999999999999999\r\n":              "in its line",
	"$1000000000000\r\n":                     "more than 131072 bytes",
	"$9223372036854775807\r\n":               "more than 131072 bytes",
	"*1000000000\r\n":                        "more than 8192 values",
	"%4611686018427387904\r\n":               "more than 8192 values",
	"%9223372036854775807\r\n":               "more than 8192 values",
	"*8192\r\n*1\r\n":                        "more than 8192 values",
	"#x\r\n":                                 "in its line",
	"#tt\r\n":                                "in its line",
	"#\r\n":                                  "in its line",
	"_x\r\n":                                 "in its line",
	"+OK\n":                                  "whole end",
	"+OK\rx":                                 "whole end",
	"+O\nK\r\n":                              "whole end",
	":1\n":                                   "whole end",
	"$2\r\nabc\r\n":                          "longer than announced",
	"$2\r\nab\rx":                            "whole end",
	">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n":                     "nothing was subscribed to",
	">3\r\n+psubscribe\r\n$1\r\nc\r\n:1\r\n":                         "nothing was subscribed to",
	">3\r\n|0\r\n+ssubscribe\r\n$1\r\nc\r\n:1\r\n":                   "nothing was subscribed to",
	">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:1\r\n":                 "nothing was subscribed to",
	">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n":                  "nothing was subscribed to",
	">3\r\n=9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n":                     "whose name is of type",
	">3\r\n,subscribe\r\n$1\r\nc\r\n:1\r\n":                          "whose name is of type",
	">2\r\n$-1\r\n:1\r\n":                                            "of length -1",
	">0\r\n":                                                         "without a name",
	"*2\r\n>2\r\n+invalidate\r\n_\r\n:1\r\n":                         "push inside",
	"*8191\r\n" + strings.Repeat(":-10000000000000000\r\n", 8191):    "more than 131072 bytes",
	strings.Repeat("*1\r\n", 1e4):                                    "more than 8192 values",
	strings.Repeat("|1\r\n", 1e4):                                    "more than 8192 values",
	strings.Repeat("|0\r\n", 4e4):                                    "more than 131072 bytes",
	"-" + strings.Repeat("x", 2e4):                                   "more than 16384 bytes",
	"*9\r\n" + strings.Repeat(Bulk(strings.Repeat("x", 32<<10)), 9):  "more than 131072 bytes",
	"*99\r\n" + strings.Repeat(Bulk(strings.Repeat("x", 2<<10)), 99): "more than 131072 bytes",
}
