"""A receiver of webhooks on the loopback."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Receiver:
    """Answers with the statuses that it was given, one after another, the last one for good; by
    https where there is a certificate: a file with its key.

    Attributes:
        statuses: may be changed at any time.
        got: (path, headers with names in lower case, body) of each request.
    """

    def __init__(self, *statuses: int, certificate: Path | None = None):
        self.statuses, self.got = [*statuses] or [200], []
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver._take(self.path, {name.lower(): value for name, value
                                                    in self.headers.items()}, body)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook?team=a"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.got.append((path, headers, body))
            return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def ids(self) -> set[str]:
        """Of the events: what is left when repetitions are dropped."""
        with self._lock:
            return {headers["webhook-id"] for _, headers, _ in self.got}

    def __enter__(self) -> "Receiver":
        return self

    def __exit__(self, *_error) -> None:
        self._server.shutdown()
        self._server.server_close()
