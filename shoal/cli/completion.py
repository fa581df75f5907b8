"""`shoal completion`: the completion script click makes for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(shoal completion bash)"
  shoal completion fish > ~/.config/fish/completions/shoal.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Prints the script that completes commands and options in SHELL."""
    completion = get_completion_class(shell)
    assert completion is not None, f"click has no completion for {shell}"
    root = ctx.find_root().command
    click.echo(completion(root, {}, "shoal", "_SHOAL_COMPLETE").source())
