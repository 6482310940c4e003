"""A line to a server on the loopback that can be cut and mended, for tests of what is away."""

import contextlib
import socket
import threading


class CutLine:
    """Forwards connections from `port` to a server's port while it is a context and not cut."""

    def __init__(self, to: int):
        self._to, self._open = to, set()
        self._lock = threading.Lock()
        self._listening = None
        self.port = 0

    def __enter__(self) -> "CutLine":
        self.mend()
        return self

    def __exit__(self, *_error) -> None:
        self.cut()

    def mend(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self) -> None:
        """Ends all connections; new ones are refused."""
        if self._listening:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = listening.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self._to))
                except OSError:  # nobody is there
                    here.close()
                    continue
                with self._lock:
                    self._open |= {here, there}
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
