package chat

import _ "embed"

// Template renders the brief chat with apply_chat_template of the transformers
// library and the servers that speak it. Messages have the roles system, user,
// assistant and tool; an assistant's message has content or one tool call of bash or
// str_replace, whose arguments are an object. What the brief chat cannot write is
// refused with an error.
//
//go:embed template.jinja
var Template string
