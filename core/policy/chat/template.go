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

// ResponseTemplate has the servers of the transformers library hand on the brief chat as
// it was written, markers included, up to its end. Without it they drop the markers, or
// take the chat for that of the architecture's best-known model.
const ResponseTemplate = `{"defaults":{"role":"assistant"},"start_anchor":"<|assistant|>","fields":{"content":{"close":"<|end|>","content":"text"}}}`
