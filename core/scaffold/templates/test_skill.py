import unittest
from unittest import mock

import valence
from skill import Count


class TestSkill(unittest.TestCase):
    def setUp(self):
        self.host = mock.Mock()
        files = [valence.File(path="a.py", data=b"def one():\n    pass\n\n\ndef two():\n    pass\n")]
        record = valence.Record(id="r", workspace=valence.Workspace(files=files))
        [self.task] = Count().build(self.host, valence.BuildRequest(record=record, template="full")).tasks

    def score(self, *changes):
        request = valence.EvaluateRequest(task=self.task, output=valence.Output(changes=list(changes), end="submitted"))
        return Count().evaluate(self.host, request).score

    def test_reference(self):
        self.assertEqual(self.score(*self.task.reference.changes), 1)

    def test_nothing(self):
        self.assertEqual(self.score(), 0)

    def test_wrong(self):
        self.assertEqual(self.score(valence.Change(path="answer.txt", data=b"3\n")), 0)


if __name__ == "__main__":
    unittest.main()
