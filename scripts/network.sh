#!/usr/bin/env bash
# Simulates machines on one computer, to try communication between them. Each is a network namespace
# with its own host name, processes, /tmp, /run and /dev/shm, on a link of limited rate to one
# switch. The machines share all other files. Needs root, iproute2 and openssh-server.
#
#   network.sh up 3 [1gbit]         m1 .. m3 at 10.77.0.1 .. 3, with an sshd each
#   network.sh rate 100mbit         changes the rate of all links (none: as fast as it goes)
#   network.sh mpirun -n 3 PROGRAM ...     from m1 by Open MPI, a rank on each machine
#   network.sh in m2 COMMAND ...    runs a command there
#   network.sh slurm                starts munge and Slurm on the machines, if installed; then
#                                   network.sh in m1 sbatch ...
#   network.sh cut m2 | mend m2     takes its link down, and up again
#   network.sh down                 ends the machines' processes, and removes everything
set -euo pipefail
state=/var/tmp/accrue-network switch=accrue-switch
export SLURM_CONF=$state/slurm.conf

pid() { cat "$state/$1.pid"; }
enter() { nsenter -t "$(pid "$1")" -n -u -m -p --wd=/ -- "${@:2}"; }
machines() { (cd "$state" && for file in m*.pid; do echo "${file%.pid}"; done | sort -V); }

# limit RATE: limits both ends of each link. A burst has the bytes of a millisecond, but at least a
# segment of 64 KiB.
limit() {
  local machine end ns device bits
  for machine in $(machines); do
    for end in "$machine eth0" "$switch $machine"; do
      read -r ns device <<<"$end"
      tc -n "$ns" qdisc del dev "$device" root 2>/dev/null || true
      [[ $1 != none ]] || continue
      bits=${1%bit}
      bits=$(numfmt --from=si "${bits^^}")
      tc -n "$ns" qdisc add dev "$device" root tbf rate "$1" latency 20ms \
        burst $((bits / 8000 > 70000 ? bits / 8000 : 70000))
    done
  done
}

# boot MACHINE ADDRESS: the namespaces live as long as the machine's process 1, which also reaps
# children.
boot() {
  local m=$1
  ip netns add "$m"
  ip link add name eth0 netns "$m" type veth peer name "$m" netns "$switch"
  ip -n "$switch" link set "$m" master br0 up
  ip -n "$m" addr add "$2/24" dev eth0
  ip -n "$m" link set lo up
  ip -n "$m" link set eth0 up
  setsid ip netns exec "$m" unshare --uts --mount --pid --fork --kill-child --mount-proc bash -c "
    hostname $m
    for folder in /run /dev/shm /tmp; do mount -t tmpfs none \$folder; done
    mkdir /run/sshd /run/lock
    mount --bind $state/hosts /etc/hosts
    /usr/sbin/sshd -f $state/sshd_config
    touch /run/ready
    sleep infinity & wait" </dev/null >"$state/$m.log" 2>&1 &
  until [[ -s $state/$m.pid ]]; do
    sleep 0.05
    tr -d ' ' <"/proc/$!/task/$!/children" >"$state/$m.pid" 2>/dev/null || true
  done
  until enter "$m" test -e /run/ready; do sleep 0.05; done
}

up() {
  local i
  mkdir -p "$state"
  [[ -e $state/key ]] || ssh-keygen -q -t ed25519 -N '' -f "$state/key"
  echo 127.0.0.1 localhost >"$state/hosts"
  for ((i = 1; i <= $1; i++)); do
    echo "10.77.0.$i m$i" >>"$state/hosts"
    echo "m$i" >>"$state/hostfile"
  done
  printf '%s\n' "HostKey $state/key" "AuthorizedKeysFile $state/key.pub" 'UsePAM no' \
    'StrictModes no' 'PermitRootLogin prohibit-password' 'PidFile none' >"$state/sshd_config"
  printf '%s\n' 'Host *' "  IdentityFile $state/key" '  StrictHostKeyChecking no' \
    '  UserKnownHostsFile /dev/null' '  LogLevel ERROR' >"$state/ssh_config"
  ip netns add "$switch"
  ip -n "$switch" link add br0 type bridge
  ip -n "$switch" link set br0 up
  for ((i = 1; i <= $1; i++)); do boot "m$i" "10.77.0.$i"; done
  limit "${2:-none}"
}

slurm() {
  local m
  cat >"$SLURM_CONF" <<'CONF'
ClusterName=machines
SlurmctldHost=m1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/run/slurmctld.log
SlurmdLogFile=/run/slurmd.log
NodeName=m[1-99] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  echo CgroupPlugin=cgroup/v1 >"$state/cgroup.conf"
  sed -i "s/m\[1-99\]/m[1-$(machines | wc -l)]/" "$SLURM_CONF"
  for m in $(machines); do
    # shellcheck disable=SC2016  # the inner shell expands it
    enter "$m" bash -c '
      mkdir /run/munge /run/slurmd /run/slurmctld
      chown munge: /run/munge
      setpriv --reuid munge --regid munge --clear-groups munged --key-file /etc/munge/munge.key \
        --log-file /run/munge/log --pid-file /run/munge/pid --seed-file /run/munge/seed
      [[ $(hostname) != m1 ]] || slurmctld
      slurmd'
  done
}

down() {
  local m
  for m in $(machines); do
    kill -KILL "$(pid "$m")" || true  # the machine's other processes end with it
    ip netns del "$m" || true
  done
  ip netns del "$switch" || true
  rm -rf "$state"
}

case ${1:-} in
  up | slurm | down) "$@" ;;
  rate) limit "$2" ;;
  in) enter "${@:2}" ;;
  cut) ip -n "$switch" link set "$2" down ;;
  mend) ip -n "$switch" link set "$2" up ;;
  mpirun)
    enter m1 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      mpirun --mca plm_rsh_args "-F $state/ssh_config" --hostfile "$state/hostfile" \
      --map-by ppr:1:node --bind-to none "${@:2}" ;;
  *)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2 ;;
esac
