"""Holds one command with all its descendants.

    python -I -S supervisor.py SOCKET SECONDS GRACE FAREWELL PARENT COMMAND ...

commands/child.py starts it, in a session of its own; see there. It starts the command in another session and waits. At
the deadline, at a "stop" or "kill" on the socket, at a signal, or when its parent process ends, it kills every
descendant: SIGTERM, and SIGKILL after GRACE seconds. As a subreaper it adopts the descendants whose parents end,
whatever their session. What the command leaves it kills FAREWELL seconds after the command's end. It reports on the
socket, a line each:

    started PID | failed ERRNO         the command was started, or why not
    ended CODE TIMED_OUT [NAME ...]    its returncode, as that of subprocess; then what was killed, URL-quoted

It imports little, since its start is a part of the time of each child.
"""

import os
import select
import sys
import time
from _signal import SIG_DFL, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ, set_wakeup_fd, signal

# Options of prctl.
_PDEATHSIG = 1
_SUBREAPER = 36
_LOOK_S = 0.5  # how often it asks whether its parent lives
_DEAF_S = 10.0  # after SIGKILL; a process in the kernel may not notice


def prctl(option, value):
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def processes():
    """Of each process: its number, with its parent's and whether it lives."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except (OSError, ValueError):
                continue  # it has ended
            # One whose main thread has ended is a zombie with other threads.
            found[int(name)] = int(fields[1]), fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
    return found


def descendants():
    """Those of this process that live, parents first; also through one that is about to die."""
    children, lives = {}, {}
    for process, (parent, lives[process]) in processes().items():
        children.setdefault(parent, []).append(process)
    found, todo = [], [os.getpid()]
    while todo:
        mine = children.get(todo.pop(0), [])
        found += mine
        todo += mine
    return [process for process in found if lives[process]]


def name_of(process):
    """The beginning of its command line, with the program's name in the place of its path."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            program, *words = file.read(500).rstrip(b"\0").split(b"\0")
    except OSError:
        return str(process)
    line = b" ".join([os.path.basename(program), *words]).decode(errors="replace")
    return f"{process} {line[:120]}".strip()


def send(process, number):
    try:  # noqa: SIM105 - contextlib takes milliseconds to import
        os.kill(process, number)
    except OSError:
        pass  # it has ended, or belongs to another user


def quoted(text):
    """Without spaces and lines, for urllib.parse.unquote."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in text.encode())


class Supervisor:
    def __init__(self, socket, seconds, grace, farewell, parent, command):
        self.socket = socket
        self.grace = grace
        self.farewell = farewell
        self.parent = parent
        self.deadline = time.monotonic() + seconds
        self.code = None  # of the command, once it has ended
        self.timed_out = False
        self.asked = b""  # what came on the socket
        self.alone = False  # whether the parent has ended
        self.told = False  # whether a signal told it to end
        prctl(_SUBREAPER, 1)
        self.woken, wake = os.pipe()
        for end in (self.woken, wake, socket):
            os.set_blocking(end, end == socket)
            os.set_inheritable(end, False)
        set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        for number in (SIGTERM, SIGINT, SIGHUP):
            signal(number, self.end)
        self.main = self.start(command)

    def end(self, *_):
        self.told = True

    def report(self, *words):
        try:
            os.write(self.socket, (" ".join(map(str, words)) + "\n").encode())
        except OSError:
            self.alone = True

    def start(self, command):
        """Start the command. Its number; None if it cannot be started."""
        reads, writes = os.pipe()
        supervisor = os.getpid()
        process = os.fork()
        if process == 0:
            try:
                os.setsid()
                prctl(_PDEATHSIG, SIGKILL)  # this process has one thread, so that its end is the thread's
                if os.getppid() != supervisor:
                    os._exit(127)
                for number in (SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ):
                    signal(number, SIG_DFL)
                self.become(command)
            except OSError as error:
                os.write(writes, str(error.errno).encode())
                os._exit(127)
            except Exception:
                os._exit(127)
        os.close(writes)
        # Whoever reads the command's output waits for the command, not for this process.
        nothing = os.open(os.devnull, os.O_RDWR)
        for end in (0, 1, 2):
            os.dup2(nothing, end)
        failed = os.read(reads, 20)
        os.close(reads)
        if failed:
            os.waitpid(process, 0)
            self.report("failed", failed.decode())
            return None
        self.report("started", process)
        return process

    def become(self, command):
        """In the command's process: be the command. commands/fork_server.py has another way."""
        os.execvp(command[0], command)

    def wait(self, seconds):
        """Wait for something to happen, at most so long, and take notice of it. Whether there are processes still."""
        ready, _, _ = select.select([self.woken] + [self.socket] * (not self.alone), [], [], max(0.0, seconds))
        if self.woken in ready:
            os.read(self.woken, 1000)
        if self.socket in ready:
            try:
                came = os.read(self.socket, 1000)
            except OSError:
                came = b""
            self.alone = self.alone or not came
            *lines, self.asked = (self.asked + came).split(b"\n")
            for line in lines:
                if line in (b"stop", b"kill"):
                    self.told = True
                    self.grace = 0.0 if line == b"kill" else self.grace
                elif line.startswith(b"signal ") and self.code is None:
                    send(self.main, int(line.split()[1]))
        self.alone = self.alone or os.getppid() != self.parent
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if process == self.main:
                self.code = os.waitstatus_to_exitcode(status)

    def kill(self):
        """Kill all descendants. The names of those that do not end."""
        told = set()
        begin = time.monotonic()
        end = begin + self.grace
        while time.monotonic() < end:
            left = descendants()
            if not left:
                return []
            # The command first, so that it can end the others in its way.
            alone = self.code is None and time.monotonic() < begin + self.grace / 2
            for process in [self.main] if alone else left:
                if process not in told:
                    told.add(process)
                    send(process, SIGTERM)
                    send(process, SIGCONT)
            self.wait(0.02)
        end = time.monotonic() + _DEAF_S
        while left := descendants():
            if time.monotonic() > end:
                return [name_of(process) for process in left]
            for process in left:
                send(process, SIGKILL)
            self.wait(0.02)
        return []

    def run(self):
        if self.main is None:
            return
        while self.code is None and not self.alone and not self.told:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self.timed_out = True
                break
            self.wait(min(left, _LOOK_S))
        if self.code is not None:
            end = time.monotonic() + self.farewell
            while descendants() and time.monotonic() < end and not self.told and not self.alone:
                self.wait(0.02)
        names = [name_of(process) for process in descendants()]
        deaf = self.kill()
        end = time.monotonic() + self.farewell
        while self.wait(0.02) and time.monotonic() < end:
            pass  # no zombie is left to another process
        names += [f"{name} (which SIGKILL did not end)" for name in deaf]
        self.report("ended", -SIGKILL if self.code is None else self.code, int(self.timed_out), *map(quoted, names))


if __name__ == "__main__":
    seconds, grace, farewell = map(float, sys.argv[2:5])
    Supervisor(int(sys.argv[1]), seconds, grace, farewell, int(sys.argv[5]), sys.argv[6:]).run()
