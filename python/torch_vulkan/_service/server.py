"""Starts the service."""

import argparse
import fcntl
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from pathlib import Path

from .errors import ServiceError, package
from .running.sandbox import Limits, bubblewrap, shows, why_not

log = logging.getLogger("torch_vulkan.service")
PORT = 8600
PACKAGES = ("fastapi", "uvicorn", "sqlmodel", "httpx", "cryptography", "prometheus_client")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True,
                        help="the folder of the database, the store and the logs; made if missing")
    parser.add_argument("--database", metavar="URL",
                        help="postgresql://USER@HOST/NAME; default: a file of --data (SQLite)")
    parser.add_argument("--store", metavar="URL",
                        help="where models and engines are: an fsspec URL (s3://bucket/folder, "
                             "file:///folder); default: a folder of --data")
    parser.add_argument("--store-copies", type=int, default=20 << 30, metavar="BYTES",
                        help="of files of --store that are kept on this machine, too")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=PORT, help="0: any that is free")
    parser.add_argument("--tasks", type=int, default=1, help="tasks that run at the same time")
    parser.add_argument("--runner", choices=("local", "ray"), default="local",
                        help="where tasks run: processes of this machine, or jobs of a Ray cluster "
                             "whose nodes have the devices")
    parser.add_argument("--ray-address", metavar="URL",
                        default=os.environ.get("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:8265"),
                        help="of Ray's dashboard; its token is the environment's RAY_AUTH_TOKEN")
    parser.add_argument("--ray-command", default="", metavar="COMMAND",
                        help="what a node runs `torch_vulkan_service.py` by; default: the path of "
                             "this machine")
    parser.add_argument("--no-sandbox", action="store_true",
                        help="run tasks without bubblewrap: for models that you trust")
    parser.add_argument("--max-upload", type=int, default=2 << 30, metavar="BYTES")
    for name, text in (("memory_bytes", "memory"), ("cpu_seconds", "time of all threads"),
                       ("seconds", "time from start to end"), ("output_bytes", "largest file")):
        parser.add_argument(f"--task-{name.replace('_', '-')}", type=int, dest=f"task_{name}",
                            default=getattr(Limits, name), metavar="N",
                            help=f"limit of a task: {text}")
    _add_operation(parser)
    parser.set_defaults(run=serve)


def _add_operation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls-cert", type=Path, metavar="FILE.pem",
                        help="the certificate and those that lead to its authority: listens by "
                             "https")
    parser.add_argument("--tls-key", type=Path, metavar="FILE.pem", help="of --tls-cert")
    parser.add_argument("--rate", type=float, default=100, metavar="N",
                        help="requests a second that a key may make; 0: no limit")
    parser.add_argument("--burst", type=int, default=500, metavar="N", help="requests at once")
    parser.add_argument("--most-waiting", type=int, default=10_000, metavar="N",
                        help="tasks of one key that may wait")
    parser.add_argument("--key-bytes", type=int, metavar="N",
                        help="of the files that one key has uploaded; default: no limit")
    parser.add_argument("--free-bytes", type=int, default=1 << 30, metavar="N",
                        help="that uploads leave on the disk")
    parser.add_argument("--keep-jobs", type=float, metavar="DAYS",
                        help="removes jobs so long after their end, once a day")
    parser.add_argument("--keep-engines", type=int, metavar="N",
                        help="keeps the engines of so many model files for each model and device")
    parser.add_argument("--webhook-private", action="store_true",
                        help="sends webhooks to private addresses too, and by http")
    parser.add_argument("--webhook-delay", type=float, default=5, metavar="SECONDS",
                        help="before an event is sent again; each next wait is four times as long")
    parser.add_argument("--webhook-attempts", type=int, default=10, metavar="N",
                        help="after which an event is dead")
    parser.add_argument("--trusted-proxy", action="append", type=_network, metavar="ADDRESS",
                        help="of a proxy, or a network of them, whose X-Forwarded-For names the "
                             "client; may be repeated; default: none")
    parser.add_argument("--traces", metavar="URL",
                        help="sends traces of requests and tasks to an OpenTelemetry collector: "
                             "http://HOST:4318")
    parser.add_argument("--log-json", action="store_true", help="log lines of JSON")


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def serve(args) -> int:
    """Runs until it is asked to end. Returns 1, with a message, where it cannot start."""
    for name in PACKAGES:
        package(name)
    from .observe import log_to_stderr

    log_to_stderr(args.log_json)
    family, address = _address(args.host, args.port)
    bwrap = None
    if not args.no_sandbox:
        bwrap = bubblewrap()
        if reason := why_not(bwrap):
            raise ServiceError(0, "no_sandbox", f"tasks cannot be run in a sandbox: {reason}", [
                "--no-sandbox runs them without one: do that for models that you trust"])
    elif not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        log.warning("--no-sandbox on %s: whoever may submit a model may attack this machine with "
                    "it", args.host)
    _check_tls(args)
    if bwrap and shows(args.data):
        raise ServiceError(0, "shown", f"--data {args.data} is where tasks may read, and its keys "
                                       "are not theirs: take another folder")
    os.umask(0o077)  # a folder that was there may be open to others
    args.data.mkdir(parents=True, exist_ok=True)
    with _locked(args.data):
        _run(args, bwrap, family, address)
    return 0


def _check_tls(args) -> None:
    """Raises ServiceError for files that no connection could be made with."""
    if args.tls_cert is None and args.tls_key is None:
        return
    if args.tls_cert is None or args.tls_key is None:
        raise ServiceError(0, "no_tls", "want both --tls-cert and --tls-key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.tls_cert, args.tls_key)
    except (ssl.SSLError, OSError) as error:
        raise ServiceError(0, "no_tls", f"--tls-cert {args.tls_cert}, --tls-key {args.tls_key}: "
                                        f"{error}") from None


def _locked(folder: Path):
    file = open(folder / "lock", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ServiceError(0, "in_use", f"another service uses {folder}") from None
    return file


def _run(args, bwrap: str | None, family: int, address: tuple) -> None:
    from .assembly import assembled
    from .http.app import make_app

    parts = assembled(args, bwrap)
    listening = _socket(family, address)
    host, port = listening.getsockname()[:2]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # after uvicorn's own, which raises it again
    try:
        for thread in parts.threads:
            thread.start()
        scheme = "https" if args.tls_cert else "http"
        print(f"listening on {scheme}://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        _server(make_app(parts), parts, args).run(sockets=[listening])
    finally:
        parts.closing.set()
        for thread in parts.threads:
            thread.stop()
        parts.runner.close()
        parts.database.close()
        parts.traces.close()


def _address(host: str, port: int) -> tuple[int, tuple]:
    """The family and address of a name or number. Raises ServiceError where it means nothing."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise ServiceError(0, "no_host", f"cannot listen on {host}:{port}: {error}") from None
    family, _type, _protocol, _name, address = found[0]
    return family, address


def _socket(family: int, address: tuple):
    # Where TCP is named, asyncio turns Nagle's algorithm off, which delays answers by 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(512)  # connections wait from now on
    except (OSError, OverflowError) as error:
        raise ServiceError(0, "no_port", f"cannot listen on {address[0]}:{address[1]}: "
                                         f"{getattr(error, 'strerror', error)}") from None
    return made


def _server(app, parts, args):
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig, frame):
            parts.closing.set()
            super().handle_exit(sig, frame)

    return Server(uvicorn.Config(app, log_level="warning", access_log=False,
                                 proxy_headers=bool(args.trusted_proxy),
                                 forwarded_allow_ips=args.trusted_proxy,
                                 ssl_certfile=args.tls_cert, ssl_keyfile=args.tls_key,
                                 timeout_graceful_shutdown=5, server_header=False))
