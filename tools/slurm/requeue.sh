#!/usr/bin/env bash
# Trains for longer than the time limit: five minutes before it the run saves, and the job goes back into the queue and continues
# from there until training is done.
#
#   sbatch tools/slurm/requeue.sh CONFIG.json [--set key.path=JSON]...
#
#SBATCH --job-name=oxrse
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }

srun --mpi=pmi2 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 "${OXRSE:-oxrse}" train "$@" &
run=$!

# srun hands SIGUSR1 on to the ranks, which save after the step and exit with 0.
again=no
trap 'again=yes; kill -USR1 $run' USR1
# A signal ends `wait`, not the run; its exit status is kept for the last one.
while kill -0 $run 2>/dev/null; do wait $run || true; done
status=0
wait $run || status=$?
if [ "$again" = yes ] && [ "$status" = 0 ]; then
  echo "requeue: the job goes back into the queue"
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
