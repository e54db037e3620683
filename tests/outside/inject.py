"""Makes system calls in the threads of another process, by `ptrace`, and prints what they returned.

Usage: inject.py DIRECTORY FILE THREAD...

DIRECTORY holds a file, and receives a socket for datagrams. Prints a line for each thread and attempt: the ID of the thread, the
name of the attempt, and the name of the error or `done`, separated by tabs. A thread that ends before its first attempt has the
single line `ended`. Only for x86-64.
"""

import ctypes
import errno
import os
import signal
import socket
import struct
import sys

PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_SINGLESTEP, PTRACE_DETACH = 12, 13, 9, 17
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000
NONE = (1 << 64) - 1
AT_FDCWD = -100 & NONE

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulong) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"
    ).split()]


class Ended(Exception):
    """A thread has ended, perhaps because its work was done."""


def ptrace(request, thread, data=None):
    if libc.ptrace(request, thread, None, data) == -1:
        error = ctypes.get_errno()
        if request in (PTRACE_SEIZE, PTRACE_INTERRUPT) and error == errno.ESRCH:
            raise Ended
        sys.exit(f"cannot trace thread {thread}: {os.strerror(error)}")


class Thread:
    """A stopped thread of another process."""

    def __init__(self, thread):
        self.thread = thread
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        _, status = os.waitpid(thread, WALL)
        if os.WIFEXITED(status):
            raise Ended
        self.saved = self.registers()
        self.memory = os.open(f"/proc/{thread}/mem", os.O_RDWR)
        self.instruction = self.find_instruction()
        # mmap: memory for what arguments point to.
        self.scratch = self.call(9, 0, 16384, 3, 0x22, NONE, 0)
        assert 0 < self.scratch < 1 << 47, "every thread may allocate memory"

    def wait(self):
        _, status = os.waitpid(self.thread, WALL)
        if not os.WIFSTOPPED(status):
            sys.exit(f"thread {self.thread} has ended: {status:#x}")

    def registers(self):
        registers = Registers()
        ptrace(PTRACE_GETREGS, self.thread, ctypes.byref(registers))
        return registers

    def find_instruction(self):
        """Returns the address of an instruction that makes a system call."""
        with open(f"/proc/{self.thread}/maps") as maps:
            for line in maps:
                span, access = line.split()[:2]
                if access == "r-xp" and "[v" not in line:
                    start, end = (int(part, 16) for part in span.split("-"))
                    found = os.pread(self.memory, end - start, start).find(b"\x0f\x05")
                    if found >= 0:
                        return start + found
        sys.exit("no such instruction")

    def call(self, number, *arguments):
        """Makes a system call. Returns its result as a signed number."""
        registers = Registers.from_buffer_copy(self.saved)
        registers.rip, registers.rax, registers.orig_rax = self.instruction, number, NONE
        arguments = [argument & NONE for argument in arguments] + [0] * (6 - len(arguments))
        registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9 = arguments
        ptrace(PTRACE_SETREGS, self.thread, ctypes.byref(registers))
        while True:
            ptrace(PTRACE_SINGLESTEP, self.thread)
            self.wait()
            registers = self.registers()
            if registers.rip != self.instruction:
                return ctypes.c_long(registers.rax).value

    def put(self, offset, content):
        """Writes what an argument points to. Returns its address."""
        os.pwrite(self.memory, content, self.scratch + offset)
        return self.scratch + offset

    def release(self):
        self.call(11, self.scratch, 16384)
        ptrace(PTRACE_SETREGS, self.thread, ctypes.byref(self.saved))
        ptrace(PTRACE_DETACH, self.thread)
        os.close(self.memory)


def attempts(thread, directory, file, receiver):
    """Yields the name and the result of each attempt."""
    call, put = thread.call, thread.put
    own = os.getpid()
    other = put(0, file.encode() + b"\0")
    passwd = put(512, b"/etc/passwd\0")
    program = put(1024, b"/bin/true\0")
    new = put(1536, os.path.join(directory, "new").encode() + b"\0")
    address = put(2048, struct.pack("=HH4s8x", socket.AF_INET, 0x5000, bytes([127, 0, 0, 1])))
    word = put(2304, struct.pack("=QQ", 1, 1))
    out = thread.scratch + 4096
    write, create, truncate = os.O_WRONLY, os.O_WRONLY | os.O_CREAT, os.O_TRUNC

    # Files.
    yield "read /etc/passwd", call(257, AT_FDCWD, passwd, os.O_RDONLY)
    yield "read /etc/passwd by openat2", call(437, AT_FDCWD, passwd, word, 24)
    yield "read /etc/passwd by x32", call(0x40000000 | 257, AT_FDCWD, passwd, os.O_RDONLY)
    yield "write a file", call(257, AT_FDCWD, other, write)
    yield "truncate a file", call(257, AT_FDCWD, other, truncate)
    yield "create a file", call(257, AT_FDCWD, new, create, 0o600)
    yield "create a file without a name", call(257, AT_FDCWD, put(3072, directory.encode() + b"\0"), os.O_TMPFILE | os.O_RDWR, 0o600)
    yield "make a directory", call(258, AT_FDCWD, new, 0o700)
    yield "remove a file", call(263, AT_FDCWD, other, 0)
    yield "rename a file", call(264, AT_FDCWD, other, AT_FDCWD, new)
    yield "link a file", call(265, AT_FDCWD, other, AT_FDCWD, new, 0)
    yield "make a symbolic link", call(266, other, AT_FDCWD, new)
    yield "change the mode of a file", call(268, AT_FDCWD, other, 0o600)
    yield "change the owner of a file", call(260, AT_FDCWD, other, 0, 0, 0)
    yield "open by handle", call(304, AT_FDCWD, word, 0)
    yield "mount", call(165, other, new, other, 0, 0)
    yield "change the root", call(161, new)

    # Programs and processes.
    yield "run a program", call(59, program, 0, 0)
    yield "run a program by execveat", call(322, AT_FDCWD, program, 0, 0, 0)
    yield "fork", call(57)
    yield "vfork", call(58)
    yield "clone a process", call(56, signal.SIGCHLD, 0, 0, 0, 0)
    yield "clone3", call(435, word, 88)
    yield "kill", call(62, own, 0)
    yield "kill all", call(62, NONE, 0)
    yield "tkill", call(200, own, 0)
    yield "tgkill", call(234, own, own, 0)
    yield "queue a signal", call(129, own, 0, word)
    yield "queue a signal for a thread", call(297, own, own, 0, word)
    yield "open a process", call(434, own, 0)
    yield "signal by descriptor", call(424, 0, 0, 0, 0)
    yield "trace", call(101, 16, own, 0, 0)
    yield "read memory of a process", call(310, own, word, 1, word, 1, 0)
    yield "write memory of a process", call(311, own, word, 1, word, 1, 0)
    yield "advise memory of a process", call(440, 0, word, 1, 0, 0)
    yield "compare processes", call(312, own, own, 0, 0, 0)
    yield "get limits of a process", call(302, own, 7, 0, out)
    yield "set limits of a process", call(302, own, 7, word, 0)
    yield "set own limits", call(302, 0, 7, word, 0)
    yield "set the priority of a process", call(141, 0, own, 19)
    yield "set the priority of a group", call(141, 1, 0, 19)
    yield "set the priority of a user", call(141, 2, 0, 19)
    yield "get the priority of a process", call(140, 0, own)
    yield "set the affinity of a process", call(203, own, 8, word)
    yield "set the scheduler of a process", call(144, own, 5, out)
    yield "set attributes of the scheduler", call(314, own, out, 0)
    yield "set the I/O priority of a process", call(251, 1, own, 3 << 13)
    yield "move pages", call(279, own, 0, 0, 0, 0, 0)
    yield "get robust futexes of a process", call(274, own, out, out)
    yield "set a process group", call(109, own, 0)
    yield "start a session", call(112)

    # Signals by way of descriptors.
    yield "set the owner of a descriptor", call(72, 2, 8, own)
    yield "set the owner by structure", call(72, 2, 15, word)
    yield "request signals of a descriptor", call(72, 2, 4, 0o20000)
    yield "request signals by ioctl", call(16, 2, 0x5452, word)
    yield "set the owner by ioctl", call(16, 2, 0x8902, word)
    yield "type into a terminal", call(16, 2, 0x5412, word)

    # Sockets.
    for name, family, kind in (
        ("TCP", socket.AF_INET, socket.SOCK_STREAM), ("UDP", socket.AF_INET6, socket.SOCK_DGRAM),
        ("Unix", socket.AF_UNIX, socket.SOCK_DGRAM), ("netlink", socket.AF_NETLINK, socket.SOCK_RAW),
        ("packet", socket.AF_PACKET, socket.SOCK_RAW), ("vsock", 40, socket.SOCK_STREAM),
    ):
        yield f"make a {name} socket", call(41, family, kind, 0)
    for name, kind in (
        ("datagrams", socket.SOCK_DGRAM), ("messages", socket.SOCK_SEQPACKET), ("raw datagrams", socket.SOCK_RAW),
        ("datagrams with flags", socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC),
    ):
        yield f"make a pair for {name}", call(53, socket.AF_UNIX, kind, 0, out)
    # Sockets for streams, if the thread may make them.
    if call(53, socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0, out) == 0:
        for descriptor in struct.unpack("=ii", os.pread(thread.memory, 8, out)):
            call(3, descriptor)
    yield "bind", call(49, 3, address, 16)
    yield "listen", call(50, 3, 1)
    yield "connect", call(42, 3, address, 16)
    yield "attach a filter", call(54, 3, socket.SOL_SOCKET, 26, word, 16)
    yield "make TLS of a socket", call(54, 3, socket.IPPROTO_TCP, 31, word, 4)
    yield "connect by sendto", call(44, 3, word, 1, 0x20000000 | socket.MSG_DONTWAIT, address, 16)

    # Datagrams to a named socket, by each socket that there is.
    name = struct.pack("=H", socket.AF_UNIX) + receiver.getsockname().encode()
    named = put(5120, name + b"\0")
    vector = put(5632, struct.pack("=QQ", word, 8))
    message = put(5888, struct.pack("=QIIQQQQII", named, len(name) + 1, 0, vector, 1, 0, 0, 0, 0))
    for descriptor in range(256):
        # Only Unix sockets that aren't connected or are for datagrams take the address; a stream to a client gets no byte.
        if is_unix_datagram(thread.thread, descriptor):
            call(44, descriptor, word, 8, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, named, len(name) + 1)
            call(46, descriptor, message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    try:
        receiver.recv(64)
        yield "send to a named socket", 0
    except BlockingIOError:
        yield "send to a named socket", -errno.EPERM

    # Privileges.
    yield "become root", call(105, 0)
    yield "become another user", call(117, 0, 0, 0)
    yield "become another group", call(119, 0, 0, 0)
    yield "join groups", call(116, 0, 0)
    yield "set capabilities", call(126, word, word)
    yield "allow to be traced", call(157, 4, 1, 0, 0, 0)
    yield "name a tracer", call(157, 0x59616d61, own, 0, 0, 0)
    yield "raise a capability", call(157, 47, 2, 1, 0, 0)
    yield "change the personality", call(135, 0x0400000)
    yield "make a namespace of users", call(272, 0x10000000)
    yield "make a namespace of networks", call(272, 0x40000000)
    yield "join a namespace", call(308, 0, 0)
    yield "add a key", call(248, other, other, 0, 0, 0)
    yield "use keys", call(250, 0, 0, 0, 0, 0)

    # Memory.
    yield "map writable code", call(9, 0, 4096, 7, 0x22, NONE, 0)
    yield "map code", call(9, 0, 4096, 5, 0x22, NONE, 0)
    yield "make memory executable", call(10, thread.scratch, 4096, 5)
    yield "make memory executable by key", call(329, thread.scratch, 4096, 5, NONE)
    yield "handle page faults", call(323, 0)
    yield "attach shared memory", call(30, 0, 0, 0o100000)

    # The kernel.
    for name, number in (
        ("load a program into the kernel", 321), ("count events", 298), ("make a ring", 425), ("change a ring", 427),
        ("load a module", 313), ("restart", 169), ("read messages of the kernel", 103), ("set the clock", 227),
        ("account processes", 163), ("swap", 167), ("set the name of the host", 170), ("use ports", 172),
        ("watch a file system", 300), ("get a handle", 303), ("change the root of mounts", 155),
    ):
        yield name, call(number, 0, word, 8, 0, 0, 0)


def is_unix_datagram(thread, descriptor):
    """Whether a descriptor of the thread is a Unix socket for datagrams."""
    try:
        link = os.readlink(f"/proc/{thread}/fd/{descriptor}")
    except OSError:
        return False
    number = link.removeprefix("socket:[").removesuffix("]")
    with open(f"/proc/{thread}/net/unix") as table:
        rows = (line.split() for line in table)
        return any(row[6] == number and row[4] == "0002" for row in rows)


def main():
    directory, file, *threads = sys.argv[1:]
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    receiver.bind(os.path.join(directory, "named.sock"))
    for number in map(int, threads):
        try:
            thread = Thread(number)
        except Ended:
            print(number, "ended", "-", sep="\t")
            continue
        for name, result in attempts(thread, directory, file, receiver):
            outcome = "done" if result >= 0 else errno.errorcode.get(-result, str(result))
            print(number, name, outcome, sep="\t")
        thread.release()
    os.remove(receiver.getsockname())


main()
