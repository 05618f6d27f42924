#!/usr/bin/env bash
# A real Slurm of two nodes, n1 and n2, on this machine: for trying job scripts and for the tests. Everything it needs and writes is in
# DIR; it listens on 127.0.0.1 only, needs no systemd, and runs as any user.
#
#   tools/slurm/local-cluster.sh start DIR     then: export SLURM_CONF=DIR/slurm.conf; srun --mpi=pmi2 -N2 -n4 oxrse train ...
#   tools/slurm/local-cluster.sh stop DIR
#
# Needs munge, slurmctld, slurmd and slurm-client (tools/setup.sh test installs them).
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "local-cluster: $*" >&2; exit 1; }

[ $# -eq 2 ] || usage
action=$1 dir=$2
case $action in start | stop) ;; *) usage ;; esac

# The processes of this cluster, last started first.
stop() {
  local name pid
  for name in slurmd-n1 slurmd-n2 slurmctld munged; do
    pid=$(cat "$dir/$name.pid" 2>/dev/null) || continue
    [[ $pid =~ ^[0-9]+$ ]] || continue
    # Only if it still is the process that wrote the number.
    grep -q "^${name%%-*}$" "/proc/$pid/comm" 2>/dev/null || continue
    grep -qF "$dir" "/proc/$pid/cmdline" 2>/dev/null || continue
    kill -TERM "$pid"
    for _ in {1..50}; do [ -d "/proc/$pid" ] || break; sleep 0.1; done
    [ ! -d "/proc/$pid" ] || kill -KILL "$pid" 2>/dev/null || true
  done
  rm -f "$dir"/*.pid
}

is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Three neighbouring ports nobody listens on, outside the range that the system gives to clients.
free_ports() {
  local port tries
  for tries in {1..100}; do
    port=$((20000 + (RANDOM * 3) % 12000))
    if is_free "$port" && is_free $((port + 1)) && is_free $((port + 2)); then echo "$port"; return; fi
  done
  fail "no three free ports between 20000 and 32000"
}

write_config() {
  local port=$1 cpus
  cpus=$(nproc)
  cat >"$dir/slurm.conf" <<CONF
ClusterName=local
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
# A job that is requeued starts again after cred_expire seconds.
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=100000
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=n[1-2] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=$((cpus < 4 ? 4 : cpus)) RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
CONF
  # Otherwise slurmd looks for a cgroup file system, which containers may not have.
  echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
}

start_munge() {
  [ -f "$dir/munge.key" ] || (umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
  munged --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" \
    --seed-file="$dir/munge.seed" --num-threads=2 --force 2>"$dir/munged.err" || fail "munged does not start: $(cat "$dir/munged.err")"
}

# Whether both nodes wait for jobs, within 20 s.
wait_for_nodes() {
  for _ in {1..200}; do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = 2 ] && return
    sleep 0.1
  done
  return 1
}

start() {
  local program
  for program in munged slurmctld slurmd srun sinfo; do
    command -v $program >/dev/null || fail "$program is missing (Debian: munge slurmctld slurmd slurm-client; tools/setup.sh test)"
  done
  mkdir -p "$dir"
  chmod 700 "$dir"
  dir=$(cd "$dir" && pwd)
  [ ! -f "$dir/slurmctld.pid" ] || fail "$dir: a cluster is running here; stop it first"
  mkdir -p "$dir/state" "$dir/spool-n1" "$dir/spool-n2"
  write_config "$(free_ports)"
  export SLURM_CONF=$dir/slurm.conf
  start_munge
  slurmctld -f "$SLURM_CONF" -c -i || { stop; fail "slurmctld does not start: $(tail -n 5 "$dir/slurmctld.log")"; }
  for node in n1 n2; do
    slurmd -f "$SLURM_CONF" -N $node || { stop; fail "slurmd does not start: $(tail -n 5 "$dir/slurmd-$node.log")"; }
  done
  wait_for_nodes || { stop; fail "the nodes do not come up; see the logs in $dir"; }
  echo "export SLURM_CONF=$SLURM_CONF"
}

if [ "$action" = start ]; then
  start
else
  [ -d "$dir" ] || fail "$dir: no such directory"
  dir=$(cd "$dir" && pwd)
  stop
fi
