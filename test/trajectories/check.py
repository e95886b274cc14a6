"""Reads what test/trajectories/run exported, with the libraries of others."""

import json
import sys
import types
from pathlib import Path

import datasets
import pyarrow.parquet

work = Path(sys.argv[1])

# The package's own first module loads everything; its models stand alone.
for name in ("harbor", "harbor.models"):
    module = types.ModuleType(name)
    module.__path__ = [str(work / "harbor" / name.replace(".", "/"))]
    sys.modules[name] = module
from harbor.models.trajectories.trajectory import Trajectory  # noqa: E402


def said(message):
    return {k: v for k, v in message.items() if v not in (None, [])}


for policy in sys.argv[2:]:
    lines = [json.loads(line) for line in (work / f"{policy}.jsonl").open()]
    table = pyarrow.parquet.read_table(work / f"{policy}.parquet").to_pylist()
    assert lines and len(lines) == len(table)
    for line, row in zip(lines, table):
        assert [said(m) for m in line["messages"]] == [said(m) for m in row["messages"]], line["id"]
        assert line["tools"] == json.loads(row["tools"])
        for key in ("id", "task", "skill", "policy", "score", "end"):
            assert line[key] == row[key], key
        assert line.get("sequences", []) == row["sequences"]
        assert bool(row["sequences"]) == (policy == "engine")
    for line in (work / f"{policy}-bare.jsonl").open():
        assert set(json.loads(line)) == {"messages", "tools"}
    for kind, file in (("parquet", f"{policy}.parquet"), ("json", f"{policy}.jsonl"), ("json", f"{policy}-bare.jsonl")):
        read = datasets.load_dataset(kind, data_files=str(work / file), split="train")
        assert len(read) == len(lines)
        assert [said(m) for m in read[0]["messages"]][0] == said(lines[0]["messages"][0])
    steps = [Trajectory.model_validate_json(line) for line in (work / f"{policy}-atif.jsonl").open()]
    assert len(steps) == len(lines)
    for t in steps:
        agent = [s for s in t.steps if s.source == "agent"]
        if policy == "engine":
            # Each prompt is whole: it goes on from the turn before.
            for before, after in zip(agent, agent[1:]):
                seen = before.metrics.prompt_token_ids + before.metrics.completion_token_ids
                assert after.metrics.prompt_token_ids[: len(seen)] == seen
    print(f"{policy}: {len(lines)} trajectories read by pyarrow, datasets and harbor")
