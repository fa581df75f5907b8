"""The joblib backend: one pool of actors per `Parallel`, batches sized by joblib."""

# joblib has no types: what its base classes return is guessed from their empty bodies.
# pyright: reportIncompatibleMethodOverride=false, reportUnknownMemberType=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin
from joblib.parallel import ParallelBackendBase

import shoal
from shoal.util.multiprocessing import Pool


class ShoalBackend(AutoBatchingMixin, ParallelBackendBase):
    """Runs batches in a `shoal.util.multiprocessing.Pool`.

    Keyword `ray_remote_args` of `parallel_config` are options of the pool's actors.
    """

    supports_retrieve_callback = True
    supports_return_generator = False
    default_n_jobs = -1

    def __init__(
        self, *args: Any, ray_remote_args: dict[str, Any] | None = None, **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self._remote_args = ray_remote_args
        self._pool: Pool | None = None
        self.parallel: Any = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Actors for a request of joblib: -1 all CPUs of the cluster, -2 all but one, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs must not be 0")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        if not shoal.is_initialized():
            shoal.init()
        return max(1, int(shoal.cluster_resources().get("CPU", 1)) + 1 + n_jobs)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_joblib: Any) -> int:
        """Starts the pool."""
        count = self.effective_n_jobs(n_jobs)
        self.parallel = parallel
        self._pool = Pool(count, ray_remote_args=self._remote_args)
        return count

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """One batch; joblib is told its values or its error."""
        assert self._pool is not None, "joblib configures a backend before it submits"
        return self._pool.apply_async(func, (), callback=callback, error_callback=callback)

    def retrieve_result_callback(self, out: Any) -> Any:
        """What `submit` told, as joblib wants it: the values, or the error raised."""
        if isinstance(out, BaseException):
            raise out
        return out

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: FBT001, FBT002 - joblib's signature
        """A batch raised: the others are dropped."""
        self.terminate()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def terminate(self) -> None:
        """Ends the pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            pool.join()
        self.reset_batch_stats()
