"""The entry point of group `torch.backends`, which PyTorch calls at the end of `import torch`."""

is_loaded = False


def is_autoload_enabled() -> bool:
    """Whether `import torch` loads the device: always, unless PT_HPU_AUTOLOAD is 0."""
    from openhpu import settings

    return bool(settings.get("PT_HPU_AUTOLOAD") != "0")


def __autoload() -> None:
    global is_loaded
    if not is_loaded and is_autoload_enabled():
        from openhpu import registration

        registration.autoload()
        is_loaded = registration.is_registered()
