"""The daemon's default numbers: each with its unit in the name, why this value, and what other programs use.

Decides nothing and reads nothing. `[limits]` in the configuration overrides a number under its name in lower case
(DESIGN: one module of limits per package). Grammar and registry constants stay beside their parsers.
"""

from __future__ import annotations

from dataclasses import dataclass

# One message's head: large cookies and signed URLs pass, memory stays bounded. nginx 4 x 8 KiB, squid 64 KB, h11 16.
HEAD_MAX_BYTES = 65_536
# Fields of one head; Apache 100, aiohttp 128 by default. Above it the reason is head-too-large.
HEAD_MAX_FIELDS = 256
# From the first byte of a head to its last, not per read: slow heads tie up connections. nginx 60, squid 300.
HEAD_TIMEOUT_SECONDS = 10.0
# A kept-alive client between two requests. nginx 75, squid 120.
IDLE_CLIENT_SECONDS = 60.0
# A whole look-up, both families. glibc 5 a try, c-ares 2 with growing tries.
DNS_TIMEOUT_SECONDS = 5.0
# What a record's TTL is raised or cut to. The floor stops a job from driving look-ups with TTL 0, the ceiling bounds
# how long a moved service is missed. Go and glibc keep nothing, browsers 60 s, unbound's ceiling is a day.
DNS_TTL_MIN_SECONDS = 1.0
DNS_TTL_MAX_SECONDS = 300.0
# No such name, or no address. Far below what zones ask for (RFC 2308 allows hours): a name just made must work soon.
DNS_NEGATIVE_SECONDS = 5.0
# A look-up that failed or had no answer; RFC 9520 section 3.2 asks for at least one second.
DNS_FAILURE_SECONDS = 1.0
# Names remembered, and addresses of all of them together, so that answers full of addresses cannot fill the memory.
DNS_CACHE_MAX_NAMES = 10_000
DNS_CACHE_MAX_ADDRESSES = 200_000
# Addresses of one name, both families. More is no service but a way to use memory and time; a DNS message over TCP
# could hold 4,000. The look-up fails then: judging only some of them would pass over a mixed answer.
DNS_ANSWER_MAX_ADDRESSES = 256
# Aliases followed inside one answer; BIND and unbound stop at 11 to 16.
DNS_CHAIN_MAX_HOPS = 16
# Look-ups of one job under way at once; the next wait for their turn. Chrome 64 in all.
DNS_JOB_MAX_LOOKUPS = 32
# Look-ups without any answer, one after the other, until the name servers themselves are asked for a sign of life; and
# how often they are asked while they give none.
DNS_SILENT_MAX_LOOKUPS = 3
DNS_PROBE_SECONDS = 5.0
# Connecting to a target, all attempts together. curl's default is 300, browsers about 20 an address.
DIAL_TIMEOUT_SECONDS = 10.0
# Between the starts of two attempts (RFC 8305 section 5 recommends 250 ms; trio and curl use 250 and 200).
DIAL_ATTEMPT_SECONDS = 0.25
# From the end of a request to the end of the reply's head. nginx 60, squid 900.
REPLY_HEAD_TIMEOUT_SECONDS = 60.0
# Pending bytes that the receiver takes none of. nginx send_timeout 60.
WRITE_STALL_SECONDS = 60.0
# A tunnel with no byte either way. haproxy's usual setting is 1 h.
TUNNEL_IDLE_SECONDS = 3_600.0
# A tunnel of which one direction has ended, with no byte the other way.
HALF_CLOSED_SECONDS = 300.0
# An upstream connection kept in the pool with nothing to do. Below the usual 60 of servers, so that it is us who close.
IDLE_UPSTREAM_SECONDS = 30.0
# Idle upstream connections kept of one grant, host and port. curl keeps 5 in all, browsers 6 a host.
POOL_MAX_PER_TARGET = 32
# Idle upstream connections kept in a worker.
POOL_MAX_CONNECTIONS = 512
# Bytes that a client may send after a CONNECT's head before the tunnel stands; then reading stops. A ClientHello
# has 0.5 to 2 KiB.
EARLY_MAX_BYTES = 65_536
# A tunnel's first bytes until its server name is known, records' headers included. Hellos have 0.5 to 2 KiB, with
# post-quantum keys and a session ticket 4. nginx's preread_buffer_size 16 KiB, Go's servers 64.
CLIENT_HELLO_MAX_BYTES = 16_384
# And how long they may take: from the 200 on 443, elsewhere from the first byte. nginx's preread_timeout 30, Envoy's
# listener filters 15.
CLIENT_HELLO_SECONDS = 10.0
# After a refusal: how long and how much of what still comes is read and thrown away, so that the client can read the
# refusal and meets no reset (measured: without it 200 of 200 clients with early bytes saw a reset).
LINGER_SECONDS = 1.0
LINGER_MAX_BYTES = 65_536
# TCP keepalive on both legs; under the 240 s after which common NATs and load balancers forget a flow.
KEEPALIVE_IDLE_SECONDS = 120
KEEPALIVE_INTERVAL_SECONDS = 30
KEEPALIVE_PROBES = 4
# SIGTERM to the end: tunnels may finish for this long.
DRAIN_SECONDS = 30.0
# Client connections of the node; clamped to the descriptor limit at start, and told. squid 16 K, haproxy 2 K. Each
# worker has an equal share of it: one whose share is full refuses, though another one may have room.
CONNECTIONS_MAX = 16_384
# Clients above that bound that are still told that the node is busy; further ones are closed without an answer.
BUSY_ANSWERS_MAX = 256
# Read at once of a chunked body whose next bytes are not known to be payload: chunks of one byte make some 2,700 lines
# of it, about 3 ms of work, and all others wait meanwhile.
CHUNKED_READ_BYTES = 16_384
# Connections taken from one listener in one turn of the loop, so that a flood does not starve those that are open.
ACCEPT_BATCH = 32
# After a failed accept for want of descriptors or memory; the listener leaves the event set meanwhile.
ACCEPT_PAUSE_SECONDS = 0.5
# How long one drain of the event set may keep the loop from timers and DNS.
DRAIN_TURN_SECONDS = 0.005
# Bytes that one connection may move in one turn.
TURN_MAX_BYTES = 262_144
# The sweep of timers and the flush of records. Coarse: deadlines end up to this much late.
SWEEP_SECONDS = 0.05
# Records waiting to be written: a batch is written when it is this large or at the next sweep, and what a slow reader
# leaves waiting above the second number is dropped and counted.
JOURNAL_BATCH_BYTES = 65_536
JOURNAL_MAX_BYTES = 1_048_576
# Pipes for splice. One of 1 MiB halves the system calls of a fast stream, but an unprivileged user may have 64 MiB in
# pipes before the kernel cuts new ones to 8 KiB (measured: EPERM after 64), so only so many are large,
# and the workers share them.
PIPE_BYTES = 1_048_576
PIPE_MAX_LARGE_PIPES = 32
# Workers of a node: one a core that the process may use, but more than eight gain nothing for one network card; nginx
# `auto` takes every core. An operator may ask for as many as the second number.
WORKERS_DEFAULT_MAX = 8
WORKERS_MAX = 64
# After a worker that died soon after its start, the next one waits: for the first number, then twice as long each time.
# systemd gives up after five starts in ten seconds; one that had worked for longer is replaced at once, as by nginx.
WORKER_RETRY_SECONDS = 0.1
WORKER_RETRY_MAX_SECONDS = 5.0
# What counts as soon, from the moment on at which it serves.
WORKER_STEADY_SECONDS = 1.0
# Starts that fail, one after the other and while nobody serves, until the daemon ends and leaves it to the system.
WORKER_START_MAX_ATTEMPTS = 5
# How long a death stays in the node's health.
WORKER_DEATH_SHOWN_SECONDS = 300.0
# Pipes kept for the next bulk stream: a new one costs 3 to 7 us (measured), a kept one two descriptors.
PIPE_MAX_IDLE_PIPES = 32
# Interim replies (1xx) before the final one; each restarts no clock, and no origin needs more than a few.
INTERIM_REPLIES_MAX = 16
# Heads remembered by their very bytes, with what follows from them: programs ask, and servers answer, in the same words
# again and again. Longer ones are not kept, nor any that carries credentials or cookies.
REMEMBERED_HEAD_MAX_BYTES = 512
REMEMBERED_HEADS_MAX = 1_024
# Judged targets remembered by a grant of one policy version; the job chooses the names, so the memory is bounded.
VERDICTS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers that an operator may change, as `[limits]` names them; the rest are constants of the program."""

    head_max_bytes: int = HEAD_MAX_BYTES
    head_max_fields: int = HEAD_MAX_FIELDS
    head_timeout_seconds: float = HEAD_TIMEOUT_SECONDS
    idle_client_seconds: float = IDLE_CLIENT_SECONDS
    dns_timeout_seconds: float = DNS_TIMEOUT_SECONDS
    dial_timeout_seconds: float = DIAL_TIMEOUT_SECONDS
    reply_head_timeout_seconds: float = REPLY_HEAD_TIMEOUT_SECONDS
    write_stall_seconds: float = WRITE_STALL_SECONDS
    tunnel_idle_seconds: float = TUNNEL_IDLE_SECONDS
    half_closed_seconds: float = HALF_CLOSED_SECONDS
    idle_upstream_seconds: float = IDLE_UPSTREAM_SECONDS
    linger_seconds: float = LINGER_SECONDS
    drain_seconds: float = DRAIN_SECONDS
    connections_max: int = CONNECTIONS_MAX
