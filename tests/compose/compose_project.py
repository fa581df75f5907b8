"""One compose project: started for the tests, taken down with all it has."""

import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND_S = 300
JOB = ["python", "/opt/shoal/examples/compose_job.py"]


class ComposeProject:
    def __init__(self):
        self.name = f"shoaltest{os.getpid()}"

    def compose(self, *words, timeout_s=COMMAND_S):
        return self._run("docker", "compose", "-p", self.name, *words, timeout_s=timeout_s)

    def docker(self, *words):
        return self._run("docker", *words, timeout_s=COMMAND_S)

    def up(self, agents):
        self.compose("up", "-d", "--wait", "--scale", f"agent={agents}")

    def down(self):
        self.compose("--profile", "*", "down", "-v", "--remove-orphans", "--timeout", "2")

    def agents(self):
        """Ids of the running agent containers, oldest first."""
        return self.compose("ps", "-q", "agent").split()

    def network(self):
        return f"{self.name}_cluster"

    def job(self, rounds=3):
        """Runs the job to its end; its numbers."""
        words = ("run", "--rm", "-T", "--no-deps", "driver", *JOB, "--rounds", str(rounds))
        return json.loads(self.compose(*words).splitlines()[-1])

    def begin_job(self, rounds):
        return RunningJob(self.name, rounds)

    def nodes_alive(self):
        return len(self._alive())

    def _alive(self):
        text = self.compose("exec", "-T", "gcs", "shoal", "list", "nodes", "--json")
        return [
            row
            for row in json.loads(text)["rows"]
            if row["state"] == "ALIVE" and row["node_name"] != "head"
        ]

    def wait_for_nodes(self, count, deadline_s=90):
        end = time.monotonic() + deadline_s
        while (alive := self.nodes_alive()) != count:
            if time.monotonic() > end:
                raise AssertionError(f"{alive} nodes alive, {count} wanted\n{self.logs()}")

    def logs(self):
        return self.compose("logs", "--tail", "30")

    def _run(self, *command, timeout_s):
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise AssertionError(
                f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout


class RunningJob:
    """A job in the middle of which a test does something bad."""

    def __init__(self, project, rounds):
        command = ["docker", "compose", "-p", project, "run", "--rm", "-T", "--no-deps", "driver"]
        self._process = subprocess.Popen(
            [*command, *JOB, "--rounds", str(rounds)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = []

    def reached_round(self, number):
        for line in self._process.stderr:
            self._said.append(line)
            if line.strip() == f"round {number}":
                return
        raise AssertionError("the job ended early:\n" + "".join(self._said))

    def result(self):
        out, err = self._process.communicate(timeout=COMMAND_S)
        if self._process.returncode:
            raise AssertionError(f"the job failed\n{out}\n{''.join(self._said)}{err}")
        return json.loads(out.splitlines()[-1])
