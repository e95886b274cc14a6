# What a user would write in the place of `valence data import`: read rows, take the lists
# of tests out of their JSON, drop what shares a repository with a suite, write JSON lines.
import json, sys

peer, source, out = sys.argv[1:]
measured = {"django/django", "sympy/sympy", "psf/requests"}
columns = ["repo", "instance_id", "base_commit", "patch", "test_patch", "problem_statement", "hints_text", "created_at", "version", "environment_setup_commit"]


def record(row):
    r = {c: row[c] for c in columns}
    for c in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        r[c] = json.loads(row[c]) if isinstance(row[c], str) else list(row[c])
    return r


def write(rows):
    with open(out, "w") as f:
        for row in rows:
            if row["repo"].lower() not in measured:
                f.write(json.dumps(record(row), default=str) + "\n")


if peer == "json":
    write(map(json.loads, open(source)))
elif peer == "pandas":
    import pandas
    frame = pandas.read_json(source, lines=True, dtype=False, convert_dates=False)
    write(frame.to_dict("records"))
elif peer == "datasets":
    import datasets
    rows = datasets.load_dataset("json", data_files=source, split="train")
    rows = rows.filter(lambda r: r["repo"].lower() not in measured)
    rows.map(record, remove_columns=rows.column_names).to_json(out)
elif peer == "make":
    import pyarrow.json as pj, pyarrow.parquet as pq
    pq.write_table(pj.read_json(source, read_options=pj.ReadOptions(block_size=1 << 24)), out, row_group_size=1000)
elif peer == "pyarrow":
    import pyarrow.parquet as pq
    f = pq.ParquetFile(source)
    write(row for batch in f.iter_batches(batch_size=1000) for row in batch.to_pylist())
