"""tv-compile: the compile service from the command line."""

import argparse
import json
import sys
from pathlib import Path

from .. import server
from ..errors import ServiceError
from ..messages.build_settings import LEVEL, PRECISIONS
from ..storage.scopes import SCOPES
from . import cli_show


def main(arguments: list[str]) -> int:
    """Runs a command; returns the exit status: 0, 1 (failed), 2 (bad command line)."""
    args = make_parser().parse_args(arguments)
    try:
        return args.run(args)
    except ServiceError as error:
        _failed(args, error, error.code, error.message, error.details)
    except (ValueError, OSError, ImportError, RuntimeError) as error:  # on this machine
        _failed(args, error, "failed", str(error), [])
    except KeyboardInterrupt:
        return 130
    return 1


def _failed(args, error: Exception, code: str, message: str, details: list[str]) -> None:
    if getattr(args, "json", False):
        print(json.dumps({"error": {"code": code, "message": message, "details": details}}))
    print(f"tv-compile: {error}", file=sys.stderr)


def make_parser() -> argparse.ArgumentParser:
    """The command line; `run` of what it parses is the command."""
    parser = argparse.ArgumentParser(prog="tv-compile", description=(
        "Compiles models by a compile service. TORCH_VULKAN_SERVICE is its URL, "
        "TORCH_VULKAN_API_KEY the key."))
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, ask, show, text):
        """`ask(client, args)` gives what is printed as JSON, or by `show`."""
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.set_defaults(run=_asking, ask=ask, show=show, status=lambda _args, _value: 0)
        return sub

    _add_submit(command("submit", _submit, cli_show.show_job, "compile a model for devices"))
    sub = command("list", lambda client, args: client.list(args.state, args.limit),
                  cli_show.show_jobs, "the jobs, the newest first")
    sub.add_argument("--state", type=str.upper)
    sub.add_argument("--limit", type=int, default=20)
    command("details", lambda client, args: client.details(args.job), cli_show.show_job,
            "a job and its tasks").add_argument("job")
    _add_logs(commands.add_parser("logs", help="what a job's tasks printed"))
    command("cancel", lambda client, args: client.cancel(args.job), cli_show.show_job,
            "stop a job").add_argument("job")
    _add_artifacts(command("artifacts", _artifacts, cli_show.show_artifacts,
                           "engines, the newest first"))
    _add_publish(command("publish", _publish, cli_show.show_artifacts,
                         "upload an engine that was built elsewhere"))
    sub = command("export", _export, cli_show.show_lines, "engines for other registries")
    sub.add_argument("--model", required=True)
    sub.add_argument("--limit", type=int, default=20, help="engines, the newest first")
    ways = sub.add_mutually_exclusive_group(required=True)
    ways.add_argument("--oci", type=Path, metavar="DIR", help="as artefacts in an OCI layout")
    ways.add_argument("--mlflow", metavar="URI", help="as versions in MLflow's model registry")
    sub = command("devices", _devices, cli_show.show_devices,
                  "the devices that can be compiled for")
    sub.add_argument("--add", nargs=2, metavar=("NAME", "PROFILE.json"),
                     help="register a device by its device profile")
    sub = command("timings", _timings, cli_show.show_timings,
                  "what the tuner measured on a device, for machines that have one of its kind")
    sub.add_argument("device")
    ways = sub.add_mutually_exclusive_group(required=True)
    ways.add_argument("--download", type=Path, metavar="FILE", help="for timing_cache_path")
    ways.add_argument("--add", type=Path, metavar="FILE", help="measured elsewhere")
    _add_webhooks(command("webhooks", _webhooks, cli_show.show_webhooks,
                          "what was sent when jobs ended"))
    _add_keys(command("keys", _keys, cli_show.show_keys, "API keys"))
    _add_gc(command("gc", _gc, cli_show.show_removed, "remove what is old"))
    sub = commands.add_parser("resources", help="this machine's devices as resources of a Ray node")
    sub.set_defaults(run=_resources)
    server.add_arguments(commands.add_parser("serve", help="run the service"))
    return parser


def _asking(args) -> int:
    from ..client.client import Client

    with Client() as client:
        value = args.ask(client, args)
    print(json.dumps(value, indent=1)) if args.json else args.show(value)
    return args.status(args, value)


def _add_submit(sub) -> None:
    sub.add_argument("--model", required=True, metavar="FILE",
                     help="an ONNX file (.onnx) or a graph file (.vkg)")
    sub.add_argument("--weights", metavar="FILE.safetensors",
                     help="tensors in place of the model's own of the same names")
    sub.add_argument("--device", required=True, action="append", help="may be repeated")
    sub.add_argument("--name", help="of the model, e.g. team/net; default: the file's")
    sub.add_argument("--job-id", help="the same id and request again give the same job")
    sub.add_argument("--level", type=int, metavar=f"{LEVEL.low}…{LEVEL.high}",
                     help="optimization_level, where the service has the device; default: "
                          f"{LEVEL.default}")
    sub.add_argument("--precision", choices=PRECISIONS,
                     help="store float32 models in 16 bits")
    sub.add_argument("--input", action="append", default=[], type=_input,
                     metavar="NAME:SHAPE", help="a range of sizes: x:1..16x3x224x224, or "
                                                "1..8..16 with the usual size between")
    sub.add_argument("--notify", metavar="URL", help="send a webhook there when the job has ended")
    sub.add_argument("--wait", action="store_true", help="until the job has ended; the status is "
                                                         "1 unless it is COMPLETED")
    sub.set_defaults(status=lambda args, job: int(args.wait and job["state"] != "COMPLETED"))


def _add_logs(sub) -> None:
    sub.add_argument("job")
    sub.add_argument("--follow", "-f", action="store_true", help="until the job has ended")
    sub.add_argument("--device", help="of this device alone")
    sub.set_defaults(run=_logs)


def _add_artifacts(sub) -> None:
    sub.add_argument("--model")
    sub.add_argument("--limit", type=int, default=20)
    sub.add_argument("--download", type=Path, metavar="DIR",
                     help="write them there, for tv.AutoModel.from_pretrained(DIR)")


def _add_publish(sub) -> None:
    sub.add_argument("--engine", required=True, metavar="FILE.vke")
    sub.add_argument("--name", required=True, help="of the model, e.g. team/net")
    sub.add_argument("--source", metavar="FILE", type=Path,
                     help="the file that it was built from")
    sub.add_argument("--level", type=int, metavar="0…5", help="at which it was tuned")
    sub.add_argument("--precision", choices=("float32", *PRECISIONS),
                     help="that float32 models are stored in; default: unknown")
    sub.add_argument("--input", action="append", default=[], type=_input, metavar="NAME:SHAPE",
                     help="a range of sizes that it was built for, as submit has it")


def _add_webhooks(sub) -> None:
    sub.add_argument("--state", type=str.upper, help="PENDING, DELIVERED or DEAD")
    sub.add_argument("--limit", type=int, default=20)
    sub.add_argument("--retry", metavar="ID", help="send an event again")
    sub.add_argument("--secret", action="store_true",
                     help="print what the events of this key's jobs are signed with")


def _add_keys(sub) -> None:
    sub.add_argument("--create", metavar="NAME", help="make a key, which is printed this once")
    sub.add_argument("--scope", action="append", choices=SCOPES,
                     help="of the new key; may be repeated; default: read")
    sub.add_argument("--revoke", metavar="ID")
    sub.add_argument("--signing", action="store_true",
                     help="print the public key that manifests are signed for")


def _add_gc(sub) -> None:
    sub.add_argument("--job-days", type=float, metavar="DAYS",
                     help="removes jobs that ended longer ago")
    sub.add_argument("--keep-engines", type=int, metavar="N",
                     help="keeps the engines of so many model files for each model and device")
    sub.add_argument("--upload-days", type=float, metavar="DAYS",
                     help="keeps files that nothing names for so long; default: 1")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _input(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    name, colon, shape = text.rpartition(":")
    try:
        dims = [tuple(int(size) for size in part.split("..")) for part in shape.split("x")]
        if not (colon and name) or any(len(dim) > 3 for dim in dims):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, want e.g. x:1..16x3x224x224") from None
    return name, [(dim[0], dim[-2] if len(dim) == 3 else dim[0], dim[-1]) for dim in dims]


def _options(args) -> dict:
    """Those that the command line names."""
    options = {"inputs": dict(args.input)} if args.input else {}
    if args.level is not None:
        options["optimization_level"] = args.level
    if args.precision:
        options["enabled_precisions"] = [args.precision] if args.precision != "float32" else []
    return options


def _submit(client, args) -> dict:
    job = client.submit(args.model, args.device, name=args.name, job_id=args.job_id,
                        options=_options(args), notify=args.notify, weights=args.weights,
                        progress=cli_show.bar("upload"))
    return client.wait(job["id"], progress=cli_show.bar("tasks", str)) if args.wait else job


def _logs(args) -> int:
    from ..client.client import Client

    with Client() as client:
        for piece in client.logs(args.job, args.follow, args.device):
            sys.stdout.write(cli_show.printable(piece))
            sys.stdout.flush()
    return 0


def _artifacts(client, args) -> list[dict]:
    found = client.artifacts(args.model, limit=args.limit)
    if args.download:
        from ..client.fetch import to_folder

        for artifact in found:
            to_folder(client, artifact, args.download,
                      progress=cli_show.bar(artifact["device"]))
    return found


def _publish(client, args) -> list[dict]:
    from ..client.fetch import model_digest

    return [client.publish(args.engine, args.name, level=args.level or 0, options=_options(args),
                           model_digest=args.source and model_digest(args.source),
                           progress=cli_show.bar("upload"))]


def _devices(client, args) -> list[dict]:
    if args.add:
        name, path = args.add
        client.add_device(name, _profile(Path(path).read_text()))
    return client.devices()


def _profile(text: str) -> dict:
    """Of a file with a device profile, or of what `python -m torch_vulkan devices --json` prints:
    that of the first device."""
    value = json.loads(text)
    if isinstance(value, list) and value:
        value = value[0].get("profile") if isinstance(value[0], dict) else None
    if not isinstance(value, dict):
        raise ValueError("the file holds no device profile")
    return value


def _export(client, args) -> list[str]:
    from ..client import exporting

    found = client.artifacts(args.model, limit=args.limit)
    if not found:
        raise ServiceError(404, "not_found", f"{client.url} has no engine of a model "
                                             f"{args.model!r}")
    if args.oci:
        return exporting.to_oci(client, found, args.oci)
    return exporting.to_mlflow(client, found, args.mlflow)


def _resources(_args) -> int:
    """ray start --resources="$(tv-compile resources)"."""
    from ..running import devices

    held: dict[str, int] = {}
    for device in devices.here():
        name = devices.resource(device["tuned_for"])
        held[name] = held.get(name, 0) + 1
    print(json.dumps(held))
    return 0


def _timings(client, args) -> dict:
    if args.add:
        return {"changed": client.add_timings(args.device, args.add.read_bytes())}
    data = client.timings(args.device)
    args.download.write_bytes(data)
    return {"bytes": len(data)}


def _webhooks(client, args) -> list[dict] | dict:
    if args.secret:
        return {"secret": client.webhook_secret()}
    if args.retry:
        client.retry_webhook(args.retry)
    return client.webhooks(args.state, args.limit)


def _keys(client, args) -> list[dict] | dict:
    if args.signing:
        return {"key": client.signing_key()}
    if args.create:
        return client.create_key(args.create, args.scope or ["read"])
    if args.revoke:
        client.revoke_key(args.revoke)
    return client.keys()


def _gc(client, args) -> dict:
    return client.collect(job_days=args.job_days, engines=args.keep_engines,
                          upload_days=args.upload_days, dry_run=args.dry_run)
