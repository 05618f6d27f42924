#!/usr/bin/env bash
# Trains on one machine, a rank for every few processors:
#
#   sbatch tools/slurm/single-node.sh CONFIG.json [--set key.path=JSON]...
#
#SBATCH --job-name=oxrse
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# --mpi=pmi2 makes the tasks ranks of one run; the last option ends all of them when one dies while they are still finding each other
# (later oxrse sees to that itself). srun does not take --cpus-per-task over from sbatch.
exec srun --mpi=pmi2 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 "${OXRSE:-oxrse}" train "$@"
