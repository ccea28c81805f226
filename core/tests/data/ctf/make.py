#!/usr/bin/env python3
"""Writes the two CTF 1.8 traces of this directory (and nothing else needs Python).

Oracle: babeltrace2 --clock-cycles --no-delta DIR > DIR.txt (babeltrace 2.0.4)

little/: as LTTng writes them: packetised metadata, compact event headers with 27-bit stamps that wrap, two CPUs,
         strings, sequences, contexts, events discarded.
big/:    big-endian, natural alignment, bit-fields, enumerations, variants, floats, nested structs, a clock of 1 MHz.
"""
import os, struct, uuid

HERE = os.path.dirname(os.path.abspath(__file__))
UUID = uuid.UUID("5d079bb9-28f0-6648-8bcf-390bb7f31523")


class Bits:
    def __init__(self, big):
        self.big, self.n, self.v = big, 0, bytearray()

    def align(self, a):
        while self.n % a:
            self.bit(0)

    def bit(self, b):
        if self.n % 8 == 0:
            self.v.append(0)
        at = self.n % 8
        self.v[-1] |= b << (7 - at if self.big else at)
        self.n += 1

    def int(self, value, bits, align=8):
        self.align(align)
        value &= (1 << bits) - 1
        for i in range(bits):
            self.bit((value >> (bits - 1 - i if self.big else i)) & 1)

    def raw(self, data):
        self.align(8)
        for byte in data:
            self.int(byte, 8)


def packetised(text):
    out = b""
    for begin in range(0, len(text), 1000):
        part = text[begin:begin + 1000].encode()
        size = (37 + len(part)) * 8
        head = struct.pack("<I16sIIIBBBBB", 0x75D11D57, UUID.bytes, 0, size, size + 8 * 11, 0, 0, 0, 1, 8)
        out += head + part + b"\0" * 11
    return out


def write(directory, name, data):
    os.makedirs(os.path.join(HERE, directory), exist_ok=True)
    with open(os.path.join(HERE, directory, name), "wb") as file:
        file.write(data)


LITTLE = """typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace { major = 1; minor = 8; uuid = "%s"; byte_order = le;
  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id; }; };
env { domain = "kernel"; tracer_name = "lttng-modules"; sysname = "Linux"; hostname = "box"; };
clock { name = "monotonic"; uuid = "b0d5fe95-1f3a-4353-ba43-c30b8afbe3ff"; freq = 1000000000; offset = 1795292913037807210; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
struct packet_context { uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end; uint64_t content_size;
  uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; };
struct event_header_compact { enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
  variant <id> { struct { uint27_clock_t timestamp; } compact; struct { uint32_t id; uint64_clock_t timestamp; } extended; } v;
} align(8);
stream { id = 0; event.header := struct event_header_compact; packet.context := struct packet_context;
  event.context := struct { integer { size = 32; align = 8; signed = 1; } _vtid; }; };
event { name = "sched_switch"; id = 0; stream_id = 0; fields := struct {
  integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; } _prev_comm[16];
  integer { size = 32; align = 8; signed = 1; } _prev_tid; integer { size = 32; align = 8; signed = 1; } _prev_prio;
  integer { size = 64; align = 8; signed = 1; } _prev_state;
  integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; } _next_comm[16];
  integer { size = 32; align = 8; signed = 1; } _next_tid; integer { size = 32; align = 8; signed = 1; } _next_prio; }; };
event { name = "irq_handler_entry"; id = 1; stream_id = 0; fields := struct {
  integer { size = 32; align = 8; signed = 1; } _irq; string _name; }; };
event { name = "syscall_entry_futex"; id = 40; stream_id = 0; context := struct { uint8_t _flag; };
  fields := struct { integer { size = 64; align = 8; base = 16; } _uaddr; integer { size = 32; align = 8; signed = 1; } _op;
  uint32_t _val; uint8_t __n_length; uint32_t _n[ __n_length ]; string _tail; }; };
""" % UUID

NS = 1 << 27


def little(cpu):
    """Two packets; the second has lost 7 events in a silence of 3 s."""
    out, now, discarded = b"", 5_000_000_000 + cpu * 333, 0
    tids = [100 + cpu, 0]
    for seq in range(2):
        body = Bits(False)
        begin = now
        for n in range(40):
            now += 1_000 + 700 * n + (60_000_000 if n % 9 == 0 else 0)
            if seq == 1 and n == 20:
                now += 3_000_000_000
            kind = (0, 1, 40)[n % 3]
            body.align(8)
            if kind == 40 or n == 20 or now - begin > NS:
                body.int(31, 5, 1), body.int(kind, 32), body.int(now, 64)
            else:
                body.int(kind, 5, 1), body.int(now, 27, 1)
            begin = now
            body.int(tids[0], 32)
            if kind == 0:
                body.raw(b"worker/%d".ljust(17, b"\0")[:16]), body.int(tids[0], 32), body.int(-96, 32)
                body.int((0, 1, 256)[n // 3 % 3], 64)
                body.raw(b"swapper".ljust(16, b"\0")), body.int(tids[1], 32), body.int(20, 32)
                tids.reverse()
            elif kind == 1:
                body.int(36, 32), body.raw(b"virtio%d\0" % (n % 4))
            else:
                body.int(n, 8)
                body.int(0x7FD2A5F3C0B0 + n, 64), body.int(n, 32), body.int(600 + n, 32)
                body.int(n % 5, 8), [body.int(n * i, 32) for i in range(n % 5)], body.raw(b"end\0")
        discarded += 7 if seq else 0
        content = (24 + 8 + 52) * 8 + body.n
        size = -(-content // 32768) * 32768
        first = 5_000_000_000 + cpu * 333 if seq == 0 else middle
        head = struct.pack("<I16sIQ", 0xC1FC1FC1, UUID.bytes, 0, cpu)
        head += struct.pack("<QQQQQQI", first, now, content, size, seq, discarded, cpu)
        out += (head + bytes(body.v)).ljust(size // 8, b"\0")
        middle = now
    return out


BIG = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 16; signed = false; } := unsigned short;
typealias integer { size = 32; align = 32; signed = false; } := uint32_t;
typealias integer { size = 64; align = 64; signed = false; } := uint64_t;
typedef integer { size = 3; align = 1; signed = true; } tiny_t;
trace { major = 1; minor = 8; uuid = "%s"; byte_order = be;
  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }; };
clock { name = ticks; freq = 1000000; offset_s = 1000; offset = 5; };
typealias integer { size = 32; align = 32; map = clock.ticks.value; } := tick_t;
stream { id = 3;
  event.header := struct { unsigned short id; tick_t timestamp; };
  packet.context := struct { uint32_t pad; integer { size = 64; align = 64; map = clock.ticks.value; } timestamp_begin;
    integer { size = 64; align = 64; map = clock.ticks.value; } timestamp_end; uint32_t content_size; uint32_t packet_size;
    uint32_t cpu_id; }; };
event { name = "shapes:all"; id = 9; stream_id = 3; fields := struct {
  tiny_t a; tiny_t b; integer { size = 13; align = 1; } c; integer { size = 16; align = 8; byte_order = le; } other_order;
  floating_point { exp_dig = 8; mant_dig = 24; align = 32; } f; floating_point { exp_dig = 11; mant_dig = 53; align = 64; } d;
  enum : uint8_t { RED, GREEN = 5, "BLUE LIGHT" = 7 ... 9 } colour;
  struct { uint32_t x; struct { uint8_t deep; } inner; } point;
  enum : uint8_t { _short, _long } kind;
  variant <kind> { uint8_t _short; struct { uint64_t high; uint64_t low; } _long; } value;
  unsigned short table[3]; uint8_t count; struct { uint8_t k; uint32_t v; } pairs[count]; string last; }; };
""" % UUID


def big():
    body = Bits(True)
    head = struct.pack(">I16sI", 0xC1FC1FC1, UUID.bytes, 3)
    body.raw(head)
    [body.int(0, 32, 32) for _ in range(9)]
    for n in range(12):
        body.align(32)
        body.int(9, 16, 16), body.int(0xFFFFFFF0 + 3 * n, 32, 32)
        body.align(64)
        body.int(n - 4, 3, 1), body.int(-n, 3, 1), body.int(n * 300, 13, 1)
        body.align(8), body.raw(struct.pack("<H", 1000 + n))
        body.align(32), body.raw(struct.pack(">f", n / 4)), body.align(64), body.raw(struct.pack(">d", -n / 8))
        body.int((0, 5, 7, 8)[n % 4], 8), body.int(n * n, 32, 32), body.int(n, 8), body.int(n % 2, 8)
        if n % 2:
            body.int(n << 40, 64, 64), body.int(n, 64, 64)
        else:
            body.int(n, 8)
        [body.int(i * n, 16, 16) for i in range(3)]
        body.int(n % 3, 8)
        for i in range(n % 3):
            body.align(32), body.int(i, 8), body.int(i + n, 32, 32)
        body.raw(b"n=%d\0" % n)
    content, data = body.n, bytearray(body.v)
    size = -(-content // 8192) * 8192
    data[32:60] = struct.pack(">QQIII", 0xFFFFFFF0, 0x100000011, content, size, 2)
    return bytes(data).ljust(size // 8, b"\0")


if __name__ == "__main__":
    write("little", "metadata", packetised(LITTLE))
    for cpu in range(2):
        write("little", f"channel_{cpu}", little(cpu))
    write("big", "metadata", BIG.encode())
    write("big", "stream", big())
