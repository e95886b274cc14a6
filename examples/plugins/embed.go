// Package plugins holds the example skills: one small skill in each language, from
// whose sources `valence plugin new` makes new ones.
package plugins

import "embed"

// Sources has a folder for each example, named like the skill in it.
//
//go:embed count/plugin.toml count/main.go count/main_test.go
//go:embed count-python/plugin.toml count-python/skill.py
//go:embed count-rust/plugin.toml count-rust/Cargo.toml count-rust/src
//go:embed count-c/plugin.toml count-c/*.c count-c/*.h
//go:embed count-assemblyscript/plugin.toml count-assemblyscript/*.json count-assemblyscript/assembly
var Sources embed.FS
