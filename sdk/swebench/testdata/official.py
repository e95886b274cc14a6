"""Asks the official harness about logs.

Reads one JSON object a line: {"id", "log_parser", "eval_type", "fail_to_pass",
"pass_to_pass", "log", "patch"} and answers each with one: {"report"}, the text of
report.json, and {"statuses"}, what the parser makes of the log as a whole; or
{"error"}. An object {"run": ...} is answered with the text of the run's report.
With --version it only prints the harness's version.
"""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile


def grade(case, folder):
    from swebench.harness.grading import get_eval_report
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.types import TestSpec

    spec = TestSpec(
        instance_id=case["id"],
        image="",
        eval_script_list=[],
        repo="",
        version="",
        FAIL_TO_PASS=case["fail_to_pass"] or [],
        PASS_TO_PASS=case["pass_to_pass"] or [],
        log_parser=case["log_parser"],
        eval_type=case["eval_type"],
    )
    path = os.path.join(folder, "test_output.txt")
    with open(path, "w", newline="") as f:
        f.write(case["log"])
    prediction = {"instance_id": case["id"], "model_patch": case["patch"]}
    report = get_eval_report(spec, prediction, path, include_tests_status=True)
    with open(path) as f:
        statuses = PARSER_REGISTRY[case["log_parser"]](f.read(), spec)
    return {"report": json.dumps(report, indent=4), "statuses": list(statuses.items())}


def run_report(case, folder):
    from swebench.harness.reporting import make_run_report

    os.chdir(folder)
    predictions = {}
    for s in case["run"]:
        predictions[s["id"]] = {"instance_id": s["id"], "model_name_or_path": "m", "model_patch": s["patch"]}
        place = pathlib.Path("logs/run_evaluation/r/m") / s["id"]
        place.mkdir(parents=True)
        for name, text in s["files"].items():
            (place / name).write_text(text)
    path = make_run_report(predictions, [{"instance_id": i} for i in case["instances"]], "r")
    return {"report": path.read_text()}


def main():
    if "--version" in sys.argv:
        import swebench
        import swebench.harness.grading

        print(swebench.__version__)
        return
    out = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        case = json.loads(line)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            try:
                answer = (run_report if "run" in case else grade)(case, folder)
            except Exception as e:  # the harness's own failure is an answer
                answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)


main()
