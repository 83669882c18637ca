"""The client's default numbers: each with its unit in the name, why this value, and what other programs use.

Decides nothing and reads nothing. Defaults of a façade's arguments are the façade's own and stand there; these bound
what the engine spends on one visit, whatever a façade asks for.
"""

from __future__ import annotations

# Opening the proxy's socket, CONNECT and the TLS handshake together. The proxy gives a dial 10 s and DNS 5 s, so its
# own refusal arrives before this ends; curl's default is 300, browsers about 20 an address.
CONNECT_SECONDS = 20.0
# From the end of a request to the end of the reply's head. The proxy waits 60; requests and httpx users usually set 10
# to 30.
FIRST_BYTE_SECONDS = 30.0
# One visit with its redirects, from the first byte sent to the last byte read. Agents' hosts cut a call at 60.
VISIT_SECONDS = 50.0
# Reading the grant. The proxy answers it from memory.
GRANT_SECONDS = 5.0
# How long a grant that was read is matched against without asking anew. A refusal is never reported on an older one.
GRANT_FRESH_SECONDS = 30.0
# The grant document. A list of 10,000 rules is about 300 KB.
GRANT_MAX_BYTES = 4_194_304
# One reply's head, and the largest piece of chunked framing. h11's default is 16 KiB and too small for some cookies;
# curl takes 300 KB in all, nginx 4 x 8 KiB.
HEAD_MAX_BYTES = 65_536
# Interim (1xx) replies before the final one. Go's client takes 5.
INTERIM_MAX_REPLIES = 16
# Redirects of one visit (OZ-31). curl's default is 50 and browsers' 20.
REDIRECTS_MAX = 5
# A page that goes elsewhere by itself after no longer than this is a redirect, otherwise a page (case H17). Search
# engines follow any delay; pages that mean to be read name 10 seconds and more.
REFRESH_MAX_SECONDS = 5
# How much of a page is looked at for that; those that only redirect are short.
REFRESH_PRESCAN_BYTES = 65_536
# Content codings undone on one reply, in reverse order. aiohttp's proposal is 4.
CODINGS_MAX = 4
# Bytes handed out by a decoder at once: what one step may add to memory.
DECODED_PIECE_BYTES = 65_536
# Bytes that the inner layers of a doubly compressed reply may make for each byte that is asked for, beside 1 MiB: a
# bomb of a bomb otherwise inflates for ever without one byte coming out.
CODING_WORK_FACTOR = 4
# Bytes read from a stream at once.
READ_PIECE_BYTES = 65_536
# Wire bytes of a body beyond the byte limit asked for, before reading stops: empty blocks of a compressed body add
# none.
WIRE_SLACK_BYTES = 1_048_576
# A URL in characters, asked for or redirected to. Browsers take 32 K to 2 M, servers usually 8 K.
URL_MAX_CHARACTERS = 8_192
# Converting one page. Measured: 0.02 s for a page of 755 KB, under 1 s for the worst made-up ones of 1 MB.
CONVERT_SECONDS = 10.0
# A budget in tokens: with less, head and note leave nothing for the page.
BUDGET_LEAST_TOKENS = 100
# A fitted answer, whatever its budget (OZ-50). Claude Code cuts a tool's answer at 25,000 tokens by default.
ANSWER_MAX_TOKENS = 50_000
ANSWER_MAX_CHARACTERS = 200_000
# A fitted answer's characters for each token of its budget (OZ-51): white space is not to pass as short.
CHARACTERS_PER_TOKEN = 8
# Conversions kept for one way out, and their text together. A long page of documentation is 0.5 MB of Markdown.
STORE_MAX_PAGES = 32
STORE_MAX_BYTES = 64_000_000
# How long one is answered from without asking the site; robots.txt is kept as long.
STORE_SECONDS = 600.0
# A robots.txt, as much of it as is read. RFC 9309 section 2.5 asks for 500 KiB at least; Google reads exactly that.
ROBOTS_MAX_BYTES = 512_000
# How long what a site's robots.txt said is kept, a failure to read it too (OZ-32). RFC 9309 section 2.4 allows a day.
ROBOTS_FRESH_SECONDS = 600.0
# Sites whose robots.txt is kept at once; the one asked for longest ago goes first.
ROBOTS_MAX_SITES = 256
# Reading one robots.txt with its redirects. Google's crawler is said to give up sooner than on pages; a page must still
# fit into the visit after it.
ROBOTS_SECONDS = 15.0
