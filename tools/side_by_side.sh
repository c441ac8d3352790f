#!/usr/bin/env bash
# Programs of the paper's tables side by side on one NVIDIA GPU, each group in a process of its own.
#
#   tools/side_by_side.sh OUT 'discrete Humanoid-G10,Humanoid-G20' 'continuous Humanoid-G5-gaussian' -- --terminate
#
# A group is an experiment and the programs that `train_together.py train` shall train together; options after -- are of
# all groups. Processes share the GPU by MPS, and its memory equally. Policies are evaluated on CPUs as they are saved,
# and once right after the start, so that what cannot work is seen then. Ctrl-C or SIGTERM, which this script alone
# hears, saves and evaluates what there is. Logs are OUT/1.log, OUT/2.log, ... and OUT/EXPERIMENT.log. Exits with 1 where
# a group or an evaluation failed.
set -u
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
out=$1; shift
groups=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do groups+=("$1"); shift; done
[ ${#groups[@]} -gt 0 ] || usage
[ $# -gt 0 ] && shift
python=${PYTHON:-python3} tool=$(dirname "$0")/train_together.py
mkdir -p "$out"
export PYTHONUNBUFFERED=1 CUDA_MPS_PIPE_DIRECTORY=$out/.mps CUDA_MPS_LOG_DIRECTORY=$out/.mps
if command -v nvidia-cuda-mps-control > /dev/null; then
  mkdir -p "$out/.mps"
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT
fi

stopping=0 names=() pids=() experiments=()
trap 'stopping=1' INT TERM
start() { # NAME COMMAND...: in the background, its output in OUT/NAME.log
  names+=("$1"); setsid "${@:2}" > "$out/$1.log" 2>&1 & pids+=($!)
}
share=$(awk "BEGIN { print 0.8 / ${#groups[@]} }")
for i in "${!groups[@]}"; do
  read -r experiment programs <<< "${groups[i]}"
  case " ${experiments[*]-} " in *" $experiment "*) ;; *) experiments+=("$experiment") ;; esac
  start $((i + 1)) env XLA_PYTHON_CLIENT_MEM_FRACTION="$share" \
    "$python" "$tool" train "$experiment" "$programs" --out "$out" "$@"
done
trainers=("${pids[@]}")
for experiment in "${experiments[@]}"; do
  start "$experiment" env JAX_PLATFORMS=cpu nice "$python" "$tool" examine "$experiment" --out "$out" --beside "${trainers[@]}"
done

failed=0 left=("${!pids[@]}")
while [ ${#left[@]} -gt 0 ]; do
  [ $stopping = 1 ] && kill -TERM "${trainers[@]}" 2> /dev/null && stopping=2
  sleep 1 & wait $! # which a signal ends
  running=()
  for i in "${left[@]}"; do
    if kill -0 "${pids[i]}" 2> /dev/null; then running+=("$i"); continue; fi
    wait "${pids[i]}" || { failed=1; echo "${names[i]}: failed" >&2; tail -n 3 "$out/${names[i]}.log" >&2; }
  done
  left=(${running[@]+"${running[@]}"})
done
exit $failed
