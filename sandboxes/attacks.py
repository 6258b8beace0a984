"""Attacks on a sandbox: Python programs that print ESCAPED where they get through. Each must not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attack:
    """A program, and what it tries.

    `{secret}` is a file outside that the user of the sandbox can read, `{pid}` the process that started it, `{port}`
    a listening TCP port of the machine, `{marker}` a path outside that may not come to be.
    """

    name: str
    source: str


_READ = "import os\ntry:\n print('ESCAPED' if {} else 'no')\nexcept Exception as e: print('stopped', type(e).__name__)"


def _reads(name: str, path: str) -> Attack:
    return Attack(name, _READ.format(f"b'SECRET-TOKEN' in open({path!r},'rb').read()"))


def _tries(name: str, *lines: str) -> Attack:
    body = "\n".join(f" {line}" for line in lines)
    return Attack(
        name, f"import os,sys,socket,signal,time\ntry:\n{body}\nexcept Exception as e: print('stopped', e)"
    )


ATTACKS: tuple[Attack, ...] = (
    # reading
    _reads("read a secret by its path", "{secret}"),
    _reads("read a secret through /proc/1/root", "/proc/1/root{secret}"),
    _reads("read a secret through the parent's root", "/proc/{pid}/root{secret}"),
    _reads("read a secret by dot-dot", "/tmp/../../../..{secret}"),
    _tries(
        "read a secret by a symlink",
        "os.symlink('{secret}','/tmp/l')",
        "print('ESCAPED', open('/tmp/l').read())",
    ),
    _tries("hard-link a secret", "os.link('{secret}','/tmp/h')", "print('ESCAPED')"),
    _tries(
        "read the parent's environment",
        "d=open('/proc/{pid}/environ','rb').read()",
        "print('ESCAPED' if b'SECRET-TOKEN' in d else 'no')",
    ),
    _tries(
        "read every process's environment",
        "f=[open('/proc/%s/environ'%p,'rb').read() for p in os.listdir('/proc') if p.isdigit()]",
        "print('ESCAPED' if any(b'SECRET-TOKEN' in x for x in f) else 'no')",
    ),
    _tries(
        "find a secret in its own environment",
        "print('ESCAPED' if 'SECRET-TOKEN' in str(os.environ) else 'no')",
    ),
    _tries(
        "see other processes",
        "n=[p for p in os.listdir('/proc') if p.isdigit()]",
        "print('ESCAPED' if len(n)>12 else 'no')",
    ),
    _tries("read the password file", "print('ESCAPED' if open('/etc/shadow').read() else 'no')"),
    _tries("list a home", "print('ESCAPED' if os.listdir('/root') else 'no')"),
    _tries("list somebody's /home", "print('ESCAPED' if os.listdir('/home') else 'no')"),
    _tries(
        "read other items in the shared /tmp",
        "print('ESCAPED' if [n for n in os.listdir('/tmp') if n.startswith('sandbox-')] else 'no')",
    ),
    _tries("read kernel memory", "open('/dev/mem','rb').read(1)", "print('ESCAPED')"),
    _tries(
        "read a disk's device",
        "import glob",
        "[open(d,'rb').read(1) for d in glob.glob('/dev/[svn][dv]*')]",
        "print('ESCAPED' if glob.glob('/dev/[svn][dv]*') else 'no')",
    ),
    _tries(
        "use an inherited descriptor",
        "g=[n for n in range(3,256) if os.path.exists('/proc/self/fd/%d'%n) and not os.readlink('/proc/self/fd/%d'%n).startswith('/proc/')]",
        "print('ESCAPED' if g else 'no')",
    ),
    # writing
    _tries(
        "write outside",
        "open('{marker}','w').write('x')",
        "print('ESCAPED' if os.path.exists('{secret}') else 'no')",
    ),
    _tries("write to the system", "open('/usr/lib/planted','w').write('x')", "print('ESCAPED')"),
    _tries(
        "write to the interpreter",
        "open(os.path.join(os.path.dirname(os.__file__),'planted.py'),'w')",
        "print('ESCAPED')",
    ),
    _tries("write to the root folder", "open('/planted','w')", "print('ESCAPED')"),
    _tries(
        "rewrite a kernel setting", "open('/proc/sys/kernel/hostname','w').write('x')", "print('ESCAPED')"
    ),
    _tries(
        "remount the root writable",
        "import ctypes",
        "r=ctypes.CDLL(None).mount(b'none',b'/',None,32,None)",
        "print('ESCAPED' if r==0 else 'no')",
    ),
    _tries(
        "unmount a mount",
        "import ctypes",
        "r=ctypes.CDLL(None).umount2(b'/tmp',2)",
        "print('ESCAPED' if r==0 else 'no')",
    ),
    _tries("make a device", "os.mknod('/tmp/d',0o60666,os.makedev(8,0))", "print('ESCAPED')"),
    _tries("leave by chroot", "os.chroot('/tmp')", "print('ESCAPED')"),
    # privileges and other processes
    _tries("become root", "os.setuid(0)", "print('ESCAPED' if os.getuid()==0 else 'no')"),
    _tries(
        "run a set-uid program as root",
        "import subprocess",
        "o=subprocess.run(['su','-c','id -u'],capture_output=True,stdin=-3).stdout",
        "print('ESCAPED' if o.strip()==b'0' else 'no')",
    ),
    _tries("signal the parent", "os.kill({pid},signal.SIGUSR1)", "print('ESCAPED')"),
    _tries(
        "trace the parent",
        "import ctypes",
        "r=ctypes.CDLL(None).ptrace(16,{pid},0,0)",
        "print('ESCAPED' if r==0 else 'no')",
    ),
    _tries(
        "raise its own limits",
        "import resource as r",
        "r.setrlimit(r.RLIMIT_NPROC,(r.RLIM_INFINITY,)*2)",
        "print('ESCAPED')",
    ),
    _tries("raise its priority", "os.nice(-10)", "print('ESCAPED')"),
    _tries("set the clock", "time.clock_settime(time.CLOCK_REALTIME,0)", "print('ESCAPED')"),
    _tries(
        "load a kernel module",
        "import ctypes",
        "r=ctypes.CDLL(None).syscall(175,b'',0,b'')",
        "print('ESCAPED' if r==0 else 'no')",
    ),
    _tries("set the host's name", "socket.sethostname('planted')", "print('ESCAPED')"),
    # network
    _tries("reach a local port", "socket.create_connection(('127.0.0.1',{port}),1)", "print('ESCAPED')"),
    _tries("reach the internet by address", "socket.create_connection(('1.1.1.1',53),1)", "print('ESCAPED')"),
    _tries("resolve a name", "socket.getaddrinfo('example.org',80)", "print('ESCAPED')"),
    _tries(
        "reach the container service",
        "s=socket.socket(socket.AF_UNIX)",
        "s.connect('/run/docker.sock')",
        "print('ESCAPED')",
    ),
    _tries(
        "reach an abstract socket",
        "s=socket.socket(socket.AF_UNIX)",
        "s.connect('\\0autotrainer-check-{port}')",
        "print('ESCAPED')",
    ),
    # resources: the program is stopped, or what it asks for is refused
    _tries(
        "fork bomb", "n=0", "while n<2000:", " if os.fork()==0: time.sleep(60)", " n+=1", "print('ESCAPED')"
    ),
    _tries(
        "thread bomb",
        "import threading",
        "[threading.Thread(target=time.sleep,args=(60,),daemon=True).start() for _ in range(500)]",
        "print('ESCAPED')",
    ),
    _tries("memory bomb", "b=bytearray(6*2**30)", "b[::4096]=b'x'*len(b[::4096])", "print('ESCAPED')"),
    _tries(
        "memory bomb over many processes",
        "[bytearray(200*2**20) and time.sleep(20) for _ in range(20) if os.fork()==0]",
        "time.sleep(4)",
        "print('ESCAPED')",
    ),
    _tries(
        "fill the disk with one file",
        "f=open('/tmp/big','wb')",
        "[f.write(b'x'*2**20) or f.flush() for _ in range(200)]",
        "print('ESCAPED')",
    ),
    _tries(
        "fill the disk with many files",
        "for n in range(200): open('/tmp/%d'%n,'wb').write(b'x'*2**20)",
        "print('ESCAPED')",
    ),
    _tries("fill shared memory", "open('/dev/shm/big','wb').write(b'x'*2**26)", "print('ESCAPED')"),
    Attack("endless output", "while True: print('x'*65536)"),
    Attack("huge standard error", "import sys\nwhile True: sys.stderr.write('e'*65536)"),
    Attack("sleep past the wall time", "import time\ntime.sleep(600)\nprint('ESCAPED')"),
    Attack("spin past the CPU time", "while True: pass"),
    Attack(
        "ignore the terminate signal",
        "import signal,time\nfor s in (15,2,1,24): signal.signal(s,signal.SIG_IGN)\ntime.sleep(600)",
    ),
    Attack(
        "zombie tree",
        "import os,time\nfor _ in range(3):\n if os.fork()==0:\n  os.setsid()\n  if os.fork()==0: time.sleep(47.125)\n  os._exit(0)\ntime.sleep(.2)",
    ),
    Attack(
        "close everything and stay",
        "import os,time\nif os.fork()==0:\n os.setsid(); os.closerange(0,100); time.sleep(47.125)",
    ),
    # lying to the reader
    Attack("output that is not UTF-8", "import os\nos.write(1,bytes(range(256)))"),
    Attack("terminal escapes", "print('\\x1b]0;x\\x07\\x1b[2J')"),
    _tries(
        "push keys into the terminal",
        "import fcntl,termios",
        "fcntl.ioctl(0,termios.TIOCSTI,b'x')",
        "print('ESCAPED')",
    ),
    _tries(
        "pickle that runs code on loading",
        "import pickle",
        "class P:",
        " def __reduce__(s): return (open,('{marker}','w'))",
        "os.write(1,pickle.dumps(P()))",
    ),
)
"""Programs beyond these have no privileged name: a backend passes where none prints ESCAPED or leaves a trace."""
