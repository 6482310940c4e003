"""The Vulkan devices of this machine."""

import json
from dataclasses import dataclass, field

import torch

from .._native import C


@dataclass(frozen=True)
class Device:
    """A Vulkan device; `index` is its place in the list of `devices`, best first."""

    index: int
    name: str
    type: str
    driver: str
    uuid: str
    features: tuple[str, ...] = ()
    _profile: object = field(default=None, repr=False, compare=False)

    def profile(self) -> str:
        """The device profile as JSON text: features and limits, which the compiler plans for."""
        return self._profile.to_json()


_FEATURES = ("float16", "int64", "int16", "int8", "storage16", "storage8", "float64",
             "subgroup_size_control", "host_pointers")


def devices() -> list[Device]:
    """The Vulkan devices of this machine, best first. Raises RuntimeError, saying what to install,
    if there are none."""
    found = []
    for index, profile in enumerate(C.list_devices()):
        values = json.loads(profile.to_json())
        features = [name for name in _FEATURES if values.get(name)]
        features += ["cooperative_matrix"] if values.get("coop_matrices") else []
        driver = f"{profile.driver_name} {profile.driver_info}".strip()
        found.append(Device(index, profile.name, profile.type, driver, profile.uuid,
                            tuple(features), profile))
    return found


def memory_stats(device: int | str | torch.device | None = None) -> dict[str, int]:
    """Bytes of a device that this process's engines hold, by what they are for.

    Args:
        device: as the setting `device` has it, or a device of tensors.

    Returns:
        `arenas` (activations; calls that come one after another share one), `weights` (copies and
        packed forms; on lavapipe engines read the tensors themselves), `slots` (where weights that
        are streamed pass through), `staging` (copies between the host and the device), `shared`
        (memory that CUDA reaches as well), `other`, `all` of them, and `peak`: the most that all
        were together since `reset_peak_memory_stats`. Beside these, `host_weights`: what is kept in
        host memory and streamed. Memory of tensors is torch's and not among them.
    """
    return C.memory_stats(_spec(device))


def reset_peak_memory_stats(device: int | str | torch.device | None = None) -> None:
    """Starts `memory_stats`'s `peak` from what is held now."""
    C.reset_peak_memory(_spec(device))


def release_memory(device: int | str | torch.device | None = None) -> None:
    """Frees arenas and staging memory that no call is using. Later calls allocate them again."""
    C.release_memory(_spec(device))


def cuda_report(device: int | str | torch.device | None = None) -> list[str]:
    """How CUDA tensors reach engines on a device, one line for each step, and why a step fails."""
    return C.cuda_report(_spec(device))


def _spec(device: int | str | torch.device | None) -> str:
    if isinstance(device, torch.device):
        return spec_for(None, device)
    return "" if device is None else str(device)


def spec_for(setting: int | str | None, tensors_on: torch.device) -> str:
    """The name by which the runtime opens the device that a graph's engines use."""
    if setting is not None:
        return str(setting)
    if tensors_on.type == "cuda":
        uuid = str(torch.cuda.get_device_properties(tensors_on).uuid).replace("-", "").lower()
        if any(profile.uuid == uuid for profile in C.list_devices()):
            return uuid
    return ""


def add_parser(commands) -> None:
    """Adds `devices` to the sub-commands of python -m torch_vulkan."""
    parser = commands.add_parser("devices", help="list the Vulkan devices, best first")
    parser.add_argument("--json", action="store_true",
                        help="as JSON, with the device profile that tv.dry_run takes as a target")
    parser.set_defaults(run=_print_devices)


def _print_devices(args) -> int:
    found = devices()
    if args.json:
        print(json.dumps([{"index": d.index, "name": d.name, "type": d.type, "driver": d.driver,
                           "uuid": d.uuid, "features": list(d.features),
                           "profile": json.loads(d.profile())} for d in found], indent=1))
        return 0
    for device in found:
        print(f"{device.index}: {device.name} ({device.type})\n   driver: {device.driver}\n"
              f"   uuid: {device.uuid}\n   features: {', '.join(device.features) or 'none'}")
    return 0
