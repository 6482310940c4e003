"""tv-compile: the compile service from the command line."""

import argparse
import json
import sys
from pathlib import Path

from . import server
from .cli_show import bar, printable, show_artifacts, show_devices, show_job, show_jobs, show_keys
from .errors import ServiceError


def main(arguments: list[str]) -> int:
    """Runs a command; returns the exit status: 0, 1 (failed), 2 (bad command line)."""
    args = make_parser().parse_args(arguments)
    try:
        return args.run(args)
    except ServiceError as error:
        if getattr(args, "json", False):
            print(json.dumps({"error": {"code": error.code, "message": error.message,
                                        "details": error.details}}))
        print(f"tv-compile: {error}", file=sys.stderr)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"tv-compile: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def make_parser() -> argparse.ArgumentParser:
    """The command line; `run` of what it parses is the command."""
    parser = argparse.ArgumentParser(prog="tv-compile", description=(
        "Compiles models by a compile service. TORCH_VULKAN_SERVICE is its URL, "
        "TORCH_VULKAN_API_KEY the key."))
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, text, json_too=True):
        sub = commands.add_parser(name, help=text, description=text)
        if json_too:
            sub.add_argument("--json", action="store_true", help="print JSON")
        sub.set_defaults(run=run)
        return sub

    _add_submit(command("submit", _submit, "compile a model for devices"))
    sub = command("list", _list, "the jobs, the newest first")
    sub.add_argument("--state", type=str.upper)
    sub.add_argument("--limit", type=int, default=20)
    command("details", _details, "a job and its tasks").add_argument("job")
    sub = command("logs", _logs, "what a job's tasks printed", json_too=False)
    sub.add_argument("job")
    sub.add_argument("--follow", "-f", action="store_true", help="until the job has ended")
    sub.add_argument("--device", help="of this device alone")
    command("cancel", _cancel, "stop a job").add_argument("job")
    sub = command("artifacts", _artifacts, "engines, the newest first")
    sub.add_argument("--model")
    sub.add_argument("--limit", type=int, default=20)
    sub.add_argument("--download", type=Path, metavar="DIR",
                     help="write them there, for tv.AutoModel.from_pretrained(DIR)")
    sub = command("devices", _devices, "the devices that can be compiled for")
    sub.add_argument("--add", nargs=2, metavar=("NAME", "PROFILE.json"),
                     help="register a device by its profile")
    _add_keys(command("keys", _keys, "API keys"))
    serve = command("serve", None, "run the service", json_too=False)
    server.add_arguments(serve)
    return parser


def _add_submit(sub) -> None:
    sub.add_argument("--model", required=True, metavar="FILE.onnx")
    sub.add_argument("--device", required=True, action="append", help="may be repeated")
    sub.add_argument("--name", help="of the model, e.g. team/net; default: the file's")
    sub.add_argument("--job-id", help="the same id and request again give the same job")
    sub.add_argument("--level", type=int, metavar="0…5",
                     help="optimization_level, where the service has the device; default: 3")
    sub.add_argument("--precision", choices=("float16", "bfloat16"),
                     help="store float32 models in 16 bits")
    sub.add_argument("--input", action="append", default=[], type=_input,
                     metavar="NAME:SHAPE", help="a range of sizes: x:1..16x3x224x224, or "
                                                "1..8..16 with the usual size between")
    sub.add_argument("--wait", action="store_true", help="until the job has ended; the status is "
                                                         "1 unless it is COMPLETED")


def _add_keys(sub) -> None:
    sub.add_argument("--create", metavar="NAME", help="make a key, which is printed this once")
    sub.add_argument("--scope", action="append", choices=("read", "submit", "admin"),
                     help="of the new key; may be repeated; default: read")
    sub.add_argument("--revoke", metavar="ID")


def _input(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    name, colon, shape = text.rpartition(":")
    try:
        dims = [tuple(int(size) for size in part.split("..")) for part in shape.split("x")]
        if not (colon and name) or any(len(dim) > 3 for dim in dims):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, want e.g. x:1..16x3x224x224") from None
    return name, [(dim[0], dim[-2] if len(dim) == 3 else dim[0], dim[-1]) for dim in dims]


def _client():
    from .client import Client

    return Client()


def _print_json(value) -> None:
    print(json.dumps(value, indent=1))


def _submit(args) -> int:
    options = {"inputs": dict(args.input)}
    if args.level is not None:
        options["optimization_level"] = args.level
    if args.precision:
        options["enabled_precisions"] = [args.precision]
    with _client() as client:
        job = client.submit(args.model, args.device, name=args.name, job_id=args.job_id,
                            options=options, progress=bar("upload"))
        if args.wait:
            job = client.wait(job["id"])
    _print_json(job) if args.json else show_job(job)
    return 1 if args.wait and job["state"] != "COMPLETED" else 0


def _list(args) -> int:
    with _client() as client:
        found = client.list(args.state, args.limit)
    _print_json(found) if args.json else show_jobs(found)
    return 0


def _details(args) -> int:
    with _client() as client:
        job = client.details(args.job)
    _print_json(job) if args.json else show_job(job)
    return 0


def _logs(args) -> int:
    with _client() as client:
        for piece in client.logs(args.job, args.follow, args.device):
            sys.stdout.write(printable(piece))
            sys.stdout.flush()
    return 0


def _cancel(args) -> int:
    with _client() as client:
        job = client.cancel(args.job)
    _print_json(job) if args.json else show_job(job)
    return 0


def _artifacts(args) -> int:
    with _client() as client:
        found = client.artifacts(args.model, limit=args.limit)
        if args.download:
            from .fetch import to_folder

            for artifact in found:
                to_folder(client, artifact, args.download)
    _print_json(found) if args.json else show_artifacts(found)
    return 0


def _devices(args) -> int:
    with _client() as client:
        if args.add:
            name, path = args.add
            client.add_device(name, _profile(Path(path).read_text()))
        found = client.devices()
    _print_json(found) if args.json else show_devices(found)
    return 0


def _profile(text: str) -> dict:
    """Of a file with a profile, or of what `python -m torch_vulkan devices --json` prints: that of
    the first device."""
    value = json.loads(text)
    if isinstance(value, list) and value:
        value = value[0].get("profile") if isinstance(value[0], dict) else None
    if not isinstance(value, dict):
        raise ValueError("the file holds no device profile")
    return value


def _keys(args) -> int:
    with _client() as client:
        if args.create:
            made = client.create_key(args.create, args.scope or ["read"])
            _print_json(made) if args.json else print(made["key"])
            return 0
        if args.revoke:
            client.revoke_key(args.revoke)
        found = client.keys()
    _print_json(found) if args.json else show_keys(found)
    return 0
