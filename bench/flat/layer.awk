# SPDX-License-Identifier: MIT
# Of the lines of `attnrun bench --json` those of whole layers: "PREFIX ISA MICROSECONDS SHARE".
function field(name,    text) {
    if (!match($0, "\"" name "\":\"?[^,}\"]*"))
        return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*:"?/, "", text)
    return text
}
field("step") == "layer" { print prefix, field("isa"), field("us"), field("share") }
