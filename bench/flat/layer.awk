# SPDX-License-Identifier: MIT
# Of the lines of `attnrun bench --json` those of whole layers: "PREFIX ISA MICROSECONDS SHARE FASTEST PEAK GFLOPS", the fastest
# call in microseconds, the peak and the median call's rate in GFLOP/s. Behind PREFIX comes the
# field that `each` names, if it names one.
function field(name,    text) {
    if (!match($0, "\"" name "\":\"?[^,}\"]*"))
        return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*:"?/, "", text)
    return text
}
field("step") == "layer" {
    print prefix (each != "" ? " " field(each) : ""), field("isa"), field("us"), field("share"), field("us_min"), \
        field("peak_gflops"), field("gflops")
}
