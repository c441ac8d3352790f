"""Programs on a real Ray cluster of two nodes with one slot each: the same numbers, whatever dies on the way."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stub_program
from tiny import flags
from vgcrl.cli import main
from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling import Task
from vgcrl.experiments.sweep.trials import TRIALS, tried
from vgcrl.training import logs

pytest.importorskip("ray")
import ray
from ray.cluster_utils import Cluster
from ray.util.state import list_tasks

from vgcrl.experiments.scheduling import cluster as on_cluster
from vgcrl.experiments.scheduling import worker
from vgcrl.experiments.scheduling.cluster import OnRay, Resources, connected

pytestmark = pytest.mark.usefixtures("unrendered")

TESTS = Path(__file__).parent
DEADLINE = 600.0
TRAINED = ["--env", "pointmass", *flags(seeds=1)]
SWEEP = [*TRAINED, "--goal-dim", "2,3"]
SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def head():
    """A cluster of one node."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(worker.installed().parent)]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
        found = Cluster(initialize_head=True, head_node_args=SMALL | {"include_dashboard": False})
        signal.signal(signal.SIGINT, before)
        yield found
        found.shutdown()


@pytest.fixture(scope="module")
def cluster(head):
    """And another."""
    head.add_node(**SMALL)
    return head


@pytest.fixture
def execute(cluster):
    with connected(cluster.address):
        yield OnRay(Resources())


def stub(mode, name, work=0.0):
    return Task(name, lambda: None, (mode, name), work, "stub_program")


def until(condition):
    """The condition's value as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def steps(folder, name):
    return stub_program.lines(folder / "runs" / name / "steps")


def starts(folder, name):
    return stub_program.lines(folder / "runs" / name / "starts")


WHOLE = list("12345")


@pytest.mark.slow
def test_one_that_fails_and_one_that_dies_do_not_stop_more_than_there_is_room_for(head, tmp_path, monkeypatch):
    monkeypatch.setattr(on_cluster, "RETRIES", 2)
    folder, said = tmp_path / "stubs", []
    tasks = [
        stub("runs", "short", 1.0),
        stub("fails", "broken", 2.0),
        stub("killed", "dies", 3.0),
        stub("runs", "b", 4),
    ]
    with connected(head.address):
        failed = OnRay(Resources())(tasks, folder, said.append)
    assert sorted(failed) == [
        "broken: it always fails",
        "dies: died 3 times: its process ended with -9",
    ]
    assert steps(folder, "short") == steps(folder, "b") == WHOLE
    assert len(starts(folder, "broken")) == 1
    assert len(starts(folder, "dies")) == 3
    assert any(line.endswith("] short: done") for line in said)
    assert not list(folder.glob(".probe*"))


@pytest.mark.slow
def test_stopping_saves_what_runs_and_never_starts_what_waits(execute, tmp_path):
    folder = tmp_path / "stubs"

    def stop():
        until(lambda: steps(folder, "a")[2:] and steps(folder, "b")[2:])
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        execute([stub("waits", "a", 3.0), stub("waits", "b", 2.0), stub("runs", "c", 1.0)], folder, print)
    thread.join()
    assert not starts(folder, "c")
    for name in "ab":
        with pytest.raises(ProcessLookupError):
            os.kill(int(starts(folder, name)[0]), 0)
    (folder / "go").touch()
    assert execute([stub("waits", "a"), stub("waits", "b")], folder, print) == []
    assert steps(folder, "a") == steps(folder, "b") == WHOLE


@pytest.mark.slow
def test_a_killed_driver_takes_its_programs_with_it_and_the_next_goes_on(cluster, execute, tmp_path):
    folder = tmp_path / "stubs"
    driver = "import sys, pathlib, test_ray as t\nwith t.connected(sys.argv[1]):\n"
    driver += " t.OnRay(t.Resources())([t.stub('waits', 'a')], pathlib.Path(sys.argv[2]), print)"
    command = [sys.executable, "-c", driver, cluster.address, str(folder)]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: steps(folder, "a")[2:])
    process.kill()
    process.wait()
    until(lambda: not Path("/proc", starts(folder, "a")[0]).exists())
    (folder / "go").touch()
    assert execute([stub("waits", "a")], folder, print) == []
    assert steps(folder, "a") == WHOLE
    assert len(starts(folder, "a")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file://{}", "file://{}/not/yet/there"])
def test_programs_are_kept_at_a_url_where_nodes_share_no_folder(cluster, tmp_path, url):
    here, there = tmp_path / "here" / "stubs", url.format(tmp_path / "there")
    with connected(cluster.address):
        assert OnRay(Resources(storage=there))([stub("runs", "a")], here, print) == []
    assert steps(here, "a") == WHOLE
    assert steps(Path(there.removeprefix("file://")) / "stubs", "a") == WHOLE


def one_line(fault):
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.fixture
def another_node(cluster):
    """More of them, for a while."""
    added = []
    yield lambda **args: added.append(cluster.add_node(**SMALL | args))
    for node in added:
        cluster.remove_node(node)


@pytest.mark.slow
def test_programs_share_a_gpu_as_far_as_there_is_any_left(cluster, another_node, tmp_path):
    """A node says that it has a GPU, which is all that Ray counts: two halves run together, the third waits."""
    another_node(num_cpus=4, num_gpus=1)
    folder = tmp_path / "stubs"

    def go():
        until(lambda: steps(folder, "a")[2:] and steps(folder, "b")[2:])
        assert not starts(folder, "c")
        (folder / "go").touch()

    with connected(cluster.address), ThreadPoolExecutor() as pool:
        gone = pool.submit(go)
        tasks = [stub("waits", name, work) for name, work in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
        assert OnRay(Resources(gpus=0.5))(tasks, folder, print) == []
        gone.result()
    for name in "abc":
        assert steps(folder, name) == WHOLE
        assert (folder / "runs" / name / "gpus").read_text() == "0 0.450"


MEASURED = {"steps": 3.0, "steps_per_second": 1000.0, "seconds_left": 2.0}  # what a stub tells when it waits


def watch_a_stub(folder):
    """On a cluster of its own: what Ray's lists, from which the dashboard is drawn, have of a program; as JSON."""

    def numbers(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            found = re.findall(r'ray_vgcrl_(\w+)\{.*program="a"\} (.*)', page.read().decode())
        return {what: float(value) for what, value in found}

    def look():
        try:
            until(lambda: steps(folder, "a")[2:])
            (node,) = ray.nodes()
            until(lambda: numbers(node["MetricsExportPort"]) == MEASURED)
            tasks = [[task.name, task.state, task.node_id == node["NodeID"]] for task in list_tasks(detail=True)]
            return {"tasks": tasks}
        finally:
            (folder / "go").touch()

    with connected("local") as dashboard, ThreadPoolExecutor() as pool:
        seen, said = pool.submit(look), []
        failed = OnRay(Resources(), dashboard)([stub("waits", "a")], folder, said.append)
        print(json.dumps(seen.result() | {"failed": failed, "dashboard": dashboard, "said": said}))


@pytest.mark.slow
def test_the_dashboard_has_what_the_table_has(tmp_path):
    """In a process of its own: Ray's settings are the process's, and the other tests have another cluster."""
    paths = os.pathsep.join([str(TESTS), str(worker.installed().parent)])
    program = "import sys, pathlib, test_ray; test_ray.watch_a_stub(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(tmp_path / "stubs")]
    output = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True).stdout
    seen = json.loads(output)
    assert seen["failed"] == []
    assert seen["said"][0] == f"Ray's dashboard: http://{seen['dashboard']}"
    assert ["a", "RUNNING", True] in seen["tasks"]
    assert {name for name, *_ in seen["tasks"]} <= {"a", "examine"}


def refused(capsys, tmp_path, cluster, *options):
    """The line in which a sweep is, without having trained anything."""
    assert main(["sweep", "diayn", *TRAINED, "--ray", cluster.address, "--out", str(tmp_path / "out"), *options]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("1 program, ")]
    assert len(said) == 1
    assert not list(tmp_path.glob("out/*/runs"))
    return said[0]


@pytest.mark.slow
def test_what_the_cluster_does_not_have_is_told_at_once(cluster, tmp_path, capsys):
    told = refused(capsys, tmp_path, cluster, "--gpus", "0.5")
    assert told.startswith("vgcrl: --gpus 0.5 --cpus 1: no node of the cluster has so much")
    assert told.endswith("valid: at most 0 GPUs and 1 cores on one node")
    assert "--gpus 0 --cpus 2: no node" in refused(capsys, tmp_path, cluster, "--cpus", "2")


@pytest.mark.slow
def test_a_node_with_other_code_is_named(cluster, another_node, tmp_path, capsys):
    """Its package is a copy with one line more."""
    other = shutil.copytree(worker.installed(), tmp_path / "other" / "vgcrl")
    with (other / "errors.py").open("a") as file:
        file.write("# another\n")
    another_node(env_vars={"PYTHONPATH": str(other.parent)})
    ours, theirs = worker.code_digest(worker.installed())[:8], worker.code_digest(other)[:8]
    told = refused(capsys, tmp_path, cluster)
    assert re.search(rf"node \S+ \(\w+\) has vgcrl \S+ \({theirs}\), here it is \S+ \({ours}\); valid: the", told)


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_told(cluster, tmp_path, capsys):
    (tmp_path / "file").touch()
    url = f"file://{tmp_path}/file/in"
    assert f"--storage {url} cannot be written" in refused(capsys, tmp_path, cluster, "--storage", url)
    told = refused(capsys, tmp_path, cluster, "--storage", "memory://mine")  # which no other process sees
    assert re.search(r"node \S+ \(\w+\) cannot write memory://mine: ", told)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nobody:6379", "here", "ray://127.0.0.1:10001", "a:b"])
def test_an_address_nobody_answers_is_told_at_once(address):
    with pytest.raises(UsageError) as fault, connected(address):
        pass
    assert f"--ray {address}" in one_line(fault).replace("'", "")


def test_an_address_where_somebody_else_answers_is_told(monkeypatch):
    monkeypatch.setattr(on_cluster, "ANSWER", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(UsageError) as fault, connected(f"127.0.0.1:{server.getsockname()[1]}"):
            pass
        assert "who answers is no Ray" in one_line(fault)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A sweep of two programs, without Ray."""
    out = tmp_path_factory.mktemp("alone")
    assert main(["sweep", "diayn", *SWEEP, "--out", str(out)]) == 0
    return out / "diayn-pointmass"


def evaluations(folder):
    """All that was measured, but for the time it took."""
    runs = {run.name: logs.read_lines(run / "metrics.jsonl") for run in (folder / "runs").iterdir()}
    return {name: [{k: v for k, v in line.items() if k != "wall"} for line in lines] for name, lines in runs.items()}


@pytest.mark.slow
def test_training_on_the_cluster_is_bit_for_bit_that_without(alone, cluster, tmp_path, capsys):
    options = ["--ray", cluster.address, "--cpus", "1", "--storage", f"file://{tmp_path}/there"]
    assert main(["sweep", "diayn", *SWEEP, "--out", str(tmp_path / "here"), *options]) == 0
    assert "report:" in capsys.readouterr().out
    found = evaluations(tmp_path / "here" / "diayn-pointmass")
    assert found == evaluations(alone)
    assert {name: len(lines) for name, lines in found.items()} == {"goal-dim=2": 5, "goal-dim=3": 5}


SEARCH = ["sweep", "diayn", *TRAINED, "--learning-rate", "1e-4..1e-2", "--hidden", "16,16/8,8", "--optimise", "lgr_z"]


@pytest.mark.slow
@pytest.mark.parametrize("search", ["asha", "optuna"])
def test_a_search_finds_the_best_and_goes_on_where_it_was(cluster, tmp_path, capsys, search):
    """The second command asks for one trial more; the first two answer from their runs, which are kept at a URL."""
    there, folder = tmp_path / "there" / "diayn-pointmass", tmp_path / "here" / "diayn-pointmass"
    command = [*SEARCH, "--search", search, "--ray", cluster.address, "--out", str(folder.parent)]
    command += ["--storage", f"file://{there.parent}"] if search == "optuna" else []
    kept = there if search == "optuna" else folder
    assert main([*command, "--trials", "2"]) == 0
    before = {path: path.stat().st_mtime_ns for path in kept.glob("runs/*/metrics.jsonl")}
    assert len(before) == len(tried(folder)) == 2
    assert main([*command, "--trials", "3"]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(tried(folder)) == 3
    assert evaluations(folder) == evaluations(kept)
    assert {path.name for path in (*folder.glob(".*"), *kept.glob(".*"))} == {".lock"}
    said = capsys.readouterr().err
    assert said.count("Best LGR(z)") == 2
    assert "[3/3] " in said
    (table,) = json.loads((folder / "result.json").read_text())["tables"].values()
    rows = sorted((hidden, float(rate)) for hidden, rate, *_ in table["rows"])
    assert rows == sorted((each["hidden"], each["learning_rate"]) for each in tried(folder))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_search_that_is_stopped_or_killed_goes_on(cluster, tmp_path, number, code):
    folder = tmp_path / "diayn-pointmass"
    command = [*SEARCH, "--steps", "6400", "--trials", "2", "--ray", cluster.address, "--out", str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-m", "vgcrl", *command], stderr=subprocess.PIPE, text=True)
    log = until(lambda: list(folder.glob("runs/*/checkpoints/*")))[0].parents[1] / "metrics.jsonl"
    first = log.read_text().splitlines()[0]
    process.send_signal(number)
    said = process.communicate()[1].splitlines()
    assert process.returncode == code
    if code == 130:
        assert f"stopped and saved; the same command continues in {folder}" in said
        assert re.match(r"\d programs? of \d not finished. Best LGR\(z\)", said[-1])
    assert main(command) == 0
    assert log.read_text().splitlines()[0] == first, "not from the start"
    runs = evaluations(folder)
    assert len(runs) == len(tried(folder)) == 2
    assert all([line["step"] for line in lines] == list(range(0, 6401, 160)) for lines in runs.values())


@pytest.mark.slow
def test_a_trial_that_fails_is_told_in_a_line_and_the_others_go_on(cluster, tmp_path, capsys):
    """The third has the values of one of the others, and is not trained again."""
    folder = tmp_path / "diayn-pointmass"
    taken = folder / "runs" / "goal-dim=3" / "mine.txt"
    taken.parent.mkdir(parents=True)
    taken.write_text("mine")
    (folder / TRIALS).write_text('{"goal_dim": "3"}\n{"goal_dim": "2"}\n')
    options = ["--goal-dim", "2,3", "--trials", "3", "--ray", cluster.address, "--out", str(tmp_path)]
    assert main(["sweep", "diayn", *TRAINED, *options]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("vgcrl: 1 of 2 programs failed: goal-dim=3: ")
    assert taken.read_text() == "mine"
    (table,) = json.loads((folder / "result.json").read_text())["tables"].values()
    assert [row[0] for row in table["rows"]] == ["2"]


@pytest.mark.slow
def test_a_node_killed_in_mid_training_changes_nothing(cluster, tmp_path):
    """Two programs on two nodes: the one whose node is killed goes on at the other, and is as if nothing had been."""
    longer = ["--steps", "25600", "--evaluate-every", "6400", "--checkpoint-every", "640"]
    sweep = ["sweep", "diayn", *SWEEP, *longer]
    assert main([*sweep, "--out", str(tmp_path / "alone")]) == 0
    runs = tmp_path / "lost" / "diayn-pointmass" / "runs"
    (lost,) = (node for node in cluster.list_all_nodes() if not node.head)

    def kill():
        until(lambda: all(list(runs.glob(f"goal-dim={g}/checkpoints/*")) for g in (2, 3)))
        cluster.remove_node(lost, allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("vgcrl.cli.commands.sweep.say", said.append)
        assert main([*sweep, "--out", str(tmp_path / "lost"), "--ray", cluster.address]) == 0
    thread.join()
    cluster.add_node(**SMALL)
    assert any("again, from its last checkpoint" in line for line in said)
    assert evaluations(runs.parent) == evaluations(tmp_path / "alone" / "diayn-pointmass")


@pytest.mark.slow
def test_a_node_that_is_killed_has_its_program_go_on_elsewhere(cluster, execute, tmp_path):
    """The last test: afterwards the cluster has one node."""
    folder, said = tmp_path / "stubs", []
    (lost,) = (node for node in cluster.list_all_nodes() if not node.head)

    def kill():
        until(lambda: len(said) == 2 and steps(folder, "a")[2:] and steps(folder, "b")[2:])
        cluster.remove_node(lost, allow_graceful=False)
        until(lambda: not all(Path("/proc", starts(folder, name)[0]).exists() for name in "ab"))
        (folder / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    assert execute([stub("waits", "a"), stub("waits", "b")], folder, said.append) == []
    thread.join()
    assert steps(folder, "a") == steps(folder, "b") == WHOLE
    assert sorted(len(starts(folder, name)) for name in "ab") == [1, 2]
    assert sum("again, from its last checkpoint" in line for line in said) == 1, said
    assert said[-1].startswith("[2/2]")
