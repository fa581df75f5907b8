"""`shoal healthcheck`: for container engines and supervisors."""

from __future__ import annotations

from typing import Any

import click

from shoal.cli import started

TIMEOUT_S_DEFAULT = 2.0


@click.command(
    "healthcheck",
    epilog="""\b
Examples:
  shoal healthcheck
  shoal healthcheck --address 127.0.0.1:7400
""",
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="What to ask; may be repeated. Default: everything `shoal start` started here.",
)
@click.option(
    "--timeout-s",
    type=click.FloatRange(0.05, 600),
    default=TIMEOUT_S_DEFAULT,
    show_default=True,
    help="Seconds for each answer.",
)
def command(addresses: tuple[str, ...], timeout_s: float) -> None:
    """Exit code 0 if every process asked serves (standard gRPC health), else 1."""
    asked = [started.check_address(address) for address in addresses]
    if not addresses:
        asked = [p.address for _, record in started.records() for p in record.processes]
    if not asked:
        raise click.ClickException("nothing was started here and no --address is given")
    for address in asked:
        state = serving_state(address, timeout_s)
        if state != "SERVING":
            raise click.ClickException(f"{address}: {state}")
    click.echo("serving")


def serving_state(address: str, timeout_s: float) -> str:
    """`SERVING`, another state of the health protocol, or what went wrong."""
    # Late: the parser above must answer `--help` without 0.1 s of grpc.
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from cluster_common.transport import endpoints

    with endpoints.make_blocking_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            failed: Any = error
            if failed.code() == grpc.StatusCode.UNIMPLEMENTED:
                # It answered, so its loop turns: all that a service without the protocol can say.
                return "SERVING"
            return str(failed.code().name)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
