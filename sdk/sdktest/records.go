package sdktest

import "github.com/valence-rl/valence/sdk"

// Records are small records, made by hand, that suit every atomic skill: a wrong
// limit in a function, a method and a second file with a wrong boundary, and an
// exception that the issue names. They need Python 3. Each call gives new copies.
func Records() []sdk.Record { return []sdk.Record{clamp(), cart(), lookup()} }

func clamp() sdk.Record {
	const buggy = `def clamp(x, low, high):
    """Keep x within low and high."""
    return min(low, min(x, high))


def double(x):
    return 2 * x
`
	const patch = `diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,6 +1,6 @@
 def clamp(x, low, high):
     """Keep x within low and high."""
-    return min(low, min(x, high))
+    return max(low, min(x, high))
 
 
 def double(x):
`
	const wrong = `diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,6 +1,6 @@
 def clamp(x, low, high):
     """Keep x within low and high."""
-    return min(low, min(x, high))
+    return max(low, max(x, high))
 
 
 def double(x):
`
	const tests = `diff --git a/test_shop.py b/test_shop.py
new file mode 100644
--- /dev/null
+++ b/test_shop.py
@@ -0,0 +1,14 @@
+import unittest
+
+import shop
+
+
+class T(unittest.TestCase):
+    def test_clamp_1(self):
+        self.assertEqual(shop.clamp(3, 0, 2), 2)
+
+    def test_clamp_2(self):
+        self.assertEqual(shop.clamp(1, 0, 2), 1)
+
+    def test_double_1(self):
+        self.assertEqual(shop.double(4), 8)
`
	mutant := func(id, line string) sdk.Mutant {
		return sdk.Mutant{ID: id, Target: "clamp", Files: []sdk.File{{Path: "shop.py", Data: []byte(
			"def clamp(x, low, high):\n    \"\"\"Keep x within low and high.\"\"\"\n" + line + "\n\n\ndef double(x):\n    return 2 * x\n")}}}
	}
	return sdk.Record{
		ID: "hand-clamp", Repo: "hand/shop", Source: "pocket", Language: "python",
		Problem:         "clamp(3, 0, 2) gives 0, but it should be 2.",
		Workspace:       sdk.Workspace{Files: []sdk.File{{Path: "shop.py", Data: []byte(buggy)}, {Path: "other.py", Data: []byte("LIMIT = 3\n")}}},
		Patch:           patch,
		TestPatch:       tests,
		FailToPass:      []string{"test_shop.T.test_clamp_1", "test_shop.T.test_clamp_2"},
		PassToPass:      []string{"test_shop.T.test_double_1"},
		TestCommand:     "python3 -m unittest -v test_shop",
		TestFiles:       []string{"test_shop.py"},
		LogParser:       "unittest",
		Targets:         []sdk.Target{{Path: "shop.py", Name: "clamp", Line: 1}},
		Mutants:         []sdk.Mutant{mutant("m1", "    return max(low, max(x, high))"), mutant("m2", "    return min(x, high)"), mutant("m3", "    return max(low, x)")},
		Candidates:      []sdk.Candidate{{Patch: patch, Correct: true, Origin: "gold"}, {Patch: wrong, Origin: "mutated-gold"}},
		Reproduce:       "from shop import *\nassert clamp(3, 0, 2) == 2\n",
		TestReference:   "from shop import *\nassert clamp(3, 0, 2) == 2\nassert clamp(-1, 0, 2) == 0\nassert clamp(1, 0, 2) == 1\n",
		UnitTestFile:    "test_shop.py",
		UnitTestCommand: "python3 test_shop.py",
		Meta:            []sdk.Pair{{Key: "family", Value: "clamp"}},
	}
}

func cart() sdk.Record {
	const buggyCart = `from store.price import total


class Cart:
    def __init__(self, items):
        self.items = items

    def cheap(self, limit):
        return [i for i in self.items if i < limit]

    def sum(self):
        return total(self.items)
`
	const buggyPrice = `def total(items):
    return sum(items[1:])
`
	const patch = `diff --git a/store/cart.py b/store/cart.py
--- a/store/cart.py
+++ b/store/cart.py
@@ -6,7 +6,7 @@ class Cart:
         self.items = items
 
     def cheap(self, limit):
-        return [i for i in self.items if i < limit]
+        return [i for i in self.items if i <= limit]
 
     def sum(self):
         return total(self.items)
diff --git a/store/price.py b/store/price.py
--- a/store/price.py
+++ b/store/price.py
@@ -1,2 +1,2 @@
 def total(items):
-    return sum(items[1:])
+    return sum(items)
`
	const half = `diff --git a/store/price.py b/store/price.py
--- a/store/price.py
+++ b/store/price.py
@@ -1,2 +1,2 @@
 def total(items):
-    return sum(items[1:])
+    return sum(items)
`
	const tests = `diff --git a/tests/test_cart.py b/tests/test_cart.py
new file mode 100644
--- /dev/null
+++ b/tests/test_cart.py
@@ -0,0 +1,13 @@
+import unittest
+
+from store.cart import Cart
+
+
+class TestCart(unittest.TestCase):
+    def test_cheap(self):
+        self.assertEqual(Cart([1, 2, 3]).cheap(2), [1, 2])
+        self.assertEqual(Cart([]).cheap(2), [])
+
+    def test_sum(self):
+        for items in [1], [2, 3]:
+            with self.subTest(items=items): self.assertEqual(Cart(items).sum(), sum(items))
`
	return sdk.Record{
		ID: "hand-cart", Repo: "hand/store", Source: "pocket", Language: "python",
		Problem: "A cart leaves out the items that cost exactly the limit, and its sum lacks the first item.",
		Workspace: sdk.Workspace{Files: []sdk.File{
			{Path: "store/__init__.py"}, {Path: "store/cart.py", Data: []byte(buggyCart)}, {Path: "store/price.py", Data: []byte(buggyPrice)}, {Path: "README.md", Data: []byte("A store.\n")},
		}},
		Patch:       patch,
		TestPatch:   tests,
		FailToPass:  []string{"test_cheap (tests.test_cart.TestCart)", "tests.test_cart.TestCart.test_sum"},
		TestCommand: "python3 -m unittest -v tests.test_cart",
		TestFiles:   []string{"tests/test_cart.py"},
		LogParser:   "unittest",
		Targets:     []sdk.Target{{Path: "store/price.py", Name: "total", Line: 1}},
		Mutants: []sdk.Mutant{
			{ID: "m1", Target: "total", Files: []sdk.File{{Path: "store/price.py", Data: []byte("def total(items):\n    return sum(items[:-1])\n")}}},
			{ID: "m2", Target: "total", Files: []sdk.File{{Path: "store/price.py", Data: []byte("def total(items):\n    return list(items)\n")}}},
		},
		Candidates:      []sdk.Candidate{{Patch: patch, Correct: true, Origin: "gold"}, {Patch: half, Origin: "mutated-gold"}},
		Reproduce:       "from store.cart import Cart\nassert Cart([1, 2]).sum() == 3\nassert Cart([1]).cheap(1) == [1]\n",
		UnitTestFile:    "check_price.py",
		UnitTestCommand: "python3 check_price.py",
		TestReference:   "from store.price import total\nassert total([1, 2]) == 3\n",
	}
}

func lookup() sdk.Record {
	const patch = `diff --git a/names.py b/names.py
--- a/names.py
+++ b/names.py
@@ -2,4 +2,4 @@
 
 
 def lookup(key):
-    return NAMES[key]
+    return NAMES.get(key, "")
`
	const useless = `diff --git a/names.py b/names.py
--- a/names.py
+++ b/names.py
@@ -2,4 +2,4 @@
 
 
 def lookup(key):
-    return NAMES[key]
+    return NAMES[key] or ""
`
	const tests = `diff --git a/test_names.py b/test_names.py
--- a/test_names.py
+++ b/test_names.py
@@ -5,3 +5,6 @@
 class TestNames(unittest.TestCase):
     def test_known(self):
         self.assertEqual(names.lookup("a"), "Ada")
+
+    def test_unknown(self):
+        self.assertEqual(names.lookup("z"), "")
`
	return sdk.Record{
		ID: "hand-lookup", Repo: "hand/names", Source: "pocket", Language: "python",
		Problem: "lookup raises KeyError for an unknown key. An empty name would do.",
		Workspace: sdk.Workspace{Files: []sdk.File{
			{Path: "names.py", Data: []byte("NAMES = {\"a\": \"Ada\"}\n\n\ndef lookup(key):\n    return NAMES[key]\n")},
			{Path: "test_names.py", Data: []byte("import unittest\nimport names\n\n\nclass TestNames(unittest.TestCase):\n    def test_known(self):\n        self.assertEqual(names.lookup(\"a\"), \"Ada\")\n")},
		}},
		Patch:           patch,
		TestPatch:       tests,
		FailToPass:      []string{"test_names.TestNames.test_unknown"},
		PassToPass:      []string{"test_names.TestNames.test_known"},
		TestCommand:     "python3 -m unittest -v test_names",
		TestFiles:       []string{"test_names.py"},
		LogParser:       "unittest",
		Targets:         []sdk.Target{{Path: "names.py", Name: "lookup", Line: 4}},
		Mutants:         []sdk.Mutant{{ID: "m1", Target: "lookup", Files: []sdk.File{{Path: "names.py", Data: []byte("NAMES = {\"a\": \"Ada\"}\n\n\ndef lookup(key):\n    return NAMES.get(key)\n")}}}},
		Candidates:      []sdk.Candidate{{Patch: patch, Correct: true, Origin: "gold"}, {Patch: useless, Origin: "mutated-gold"}},
		Reproduce:       "from names import lookup\nassert lookup('z') == ''\n",
		UnitTestFile:    "test_names.py",
		UnitTestCommand: "python3 -m unittest test_names",
		TestReference:   "import unittest\nimport names\n\n\nclass TestNames(unittest.TestCase):\n    def test_unknown(self):\n        self.assertEqual(names.lookup(\"z\"), \"\")\n",
	}
}
