# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A Slurm of one node, this machine, for test_cluster.sh: own configuration, key, socket, ports and state, all in one
# folder; nothing of the system's is read or changed. To be sourced.
#
#   one_node_start FOLDER   0: it runs, and $SLURM_CONF says where; else $one_node_reason says why it cannot
#   one_node_stop           ends every daemon that was started

one_node_pids=() one_node_reason=

# one_node_wait SECONDS COMMAND…: until it succeeds
one_node_wait() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

# Two ports that nobody listens on.
one_node_ports() {
    local port tries
    for ((tries = 0; tries < 50; tries++)); do
        port=$((20000 + RANDOM % 10000))
        if ! (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null && ! (: <>/dev/tcp/127.0.0.1/$((port + 1))) 2>/dev/null; then
            echo $port
            return
        fi
    done
    return 1
}

one_node_stop() {
    local pid
    if [ ${#one_node_pids[@]} -eq 3 ]; then # jobs would outlive the daemons
        scancel --partition=all 2>/dev/null
        one_node_wait 10 eval '[ -z "$(squeue -h)" ]'
    fi
    for pid in "${one_node_pids[@]}"; do
        kill "$pid" 2>/dev/null
    done
    for pid in "${one_node_pids[@]}"; do
        one_node_wait 5 eval "! kill -0 $pid" || kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    one_node_pids=()
}

# one_node_daemon NAME ARGUMENT…: in the background, its output into a log
one_node_daemon() {
    "$@" >>"$one_node/$(basename "$1").log" 2>&1 </dev/null &
    one_node_pids+=($!)
}

one_node_start() {
    one_node=$1
    local host port user tool PATH=$PATH:/usr/sbin:/sbin
    for tool in munged slurmctld slurmd sbatch sinfo; do
        command -v $tool >/dev/null || { one_node_reason="$tool is not here"; return 1; }
    done
    host=$(hostname -s) && user=$(id -un) && port=$(one_node_ports) ||
        { one_node_reason="no name of this machine, of its user, or no free port"; return 1; }
    mkdir -p "$one_node/state" "$one_node/spool" && chmod 755 "$one_node" || return 1

    # munge: the key is for nobody else; --force, as the socket lies in a folder that is not for everybody either
    mkdir -m 755 "$one_node/run"
    (umask 077 && head -c 128 /dev/urandom >"$one_node/munge.key")
    one_node_daemon munged --foreground --force --key-file="$one_node/munge.key" --socket="$one_node/run/munge.sock" \
        --pid-file="$one_node/run/munged.pid" --log-file="$one_node/munge.log" --seed-file="$one_node/munge.seed"
    one_node_wait 10 test -S "$one_node/run/munge.sock" ||
        { one_node_reason="munged does not start: $(tail -n 1 "$one_node/munged.log")"; return 1; }

    # linuxproc and task/none need no cgroups, but slurmd loads a plugin for them all the same; v1's loads without any
    echo 'CgroupPlugin=cgroup/v1' >"$one_node/cgroup.conf"
    cat >"$one_node/slurm.conf" <<CONF
ClusterName=attngen
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$one_node/run/munge.sock
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$one_node/state
SlurmdSpoolDir=$one_node/spool
SlurmctldPidFile=$one_node/run/slurmctld.pid
SlurmdPidFile=$one_node/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$one_node/slurm.conf
    one_node_daemon slurmctld -D -f "$SLURM_CONF"
    one_node_daemon slurmd -D -f "$SLURM_CONF"
    one_node_wait 20 eval "sinfo -h -o %t | grep -qx idle" ||
        { one_node_reason="the node does not come up: $(grep -h 'fatal\|error' "$one_node"/slurm*.log | tail -n 1)"
          return 1; }
}
