"""Importing it lets scripts written for CUDA run on hpu: docs/migration.md. PT_HPU_GPU_MIGRATION=1 imports it, too."""

from openhpu.integration import registration

registration.register(migrated=True)
