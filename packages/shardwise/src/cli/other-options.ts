// What becomes of the options of torchrun, `accelerate launch` and `deepspeed`, which may be written with - or with _
// between their words. Here they are written with -. Each is in exactly one of the tables, or in a refused family.

/** Options that mean the same as one of ours, which takes their value. */
export const synonyms: Readonly<Record<string, string>> = {
  '--nproc-per-node': '--nproc',
  '--rdzv-endpoint': '--rdzv',
  '--num-machines': '--nnodes',
  '--machine-rank': '--node-rank',
  '--num-gpus': '--nproc',
  '--num-accelerators': '--nproc',
  '--num-nodes': '--nnodes',
};

/** Options from which several of ours follow together with others, by the name that they have here. */
export const joint: Readonly<Record<string, string>> = {
  '--num-processes': '--num-processes',
  '--main-process-ip': '--main-process-ip',
  '--main-process-port': '--main-process-port',
  '--master-addr': '--master-addr',
  '--master-port': '--master-port',
  '--hostfile': '--hostfile',
  '--include': '--include',
  '--exclude': '--exclude',
  '-H': '--hostfile',
  '-i': '--include',
  '-e': '--exclude',
  '--deepspeed-hostfile': '--hostfile',
  '--deepspeed-inclusion-filter': '--include',
  '--deepspeed-exclusion-filter': '--exclude',
  '--rdzv-backend': '--rdzv-backend',
};

/** Options without a value that ask for what is done anyway. */
export const granted: ReadonlySet<string> = new Set([
  '--multi-gpu',
  // Each host runs the command itself, and nothing is passed to the script.
  '--no-ssh',
  '--no-ssh-check',
  '--no-local-rank',
  '--force-multi',
  // Collectives of other shapes on other ranks are always an error.
  '--debug',
]);

/** Options of ours whose words other launchers write with _. */
export const ownNames: ReadonlySet<string> = new Set([
  '--config-file',
  '--nnodes',
  '--node-rank',
  '--rdzv-id',
  '--max-restarts',
  '--help',
  '-h',
]);

const inScript = 'the script says it';
const byDeepSpeed = `${inScript}: initialize({ model, config }) of @shardwise/compat`;
const otherStart = 'each host runs this command; use srun, mpirun or ssh to start it there';
const logs = 'each rank has a log in the folder of the run, and its lines are shown too';
const oneDevice = 'all ranks of a host use one device; --device chooses its kind';
const path = 'give the path of the script';
const elastic = 'write --nnodes MIN:MAX';
const cores = 'start the command under numactl';

/** Options that mean nothing here or something else, and what takes their place. */
export const refused: Readonly<Record<string, string>> = {
  '--mixed-precision': `${inScript}: autocast({ dtype: 'bf16' }, ...)`,
  '--downcast-bf16': `${inScript}: autocast({ dtype: 'bf16' }, ...)`,
  '--use-deepspeed': byDeepSpeed,
  '--deepspeed-config-file': byDeepSpeed,
  '--deepspeed-moe-layer-cls-names': `${inScript}: dist.expertParallel()`,
  '--deepspeed-multinode-launcher': otherStart,
  '--use-fsdp': `${inScript}: dist.fsdp()`,
  '--use-megatron-lm': `${inScript}: dist.tensorParallel() and dist.pipeline()`,
  '--use-parallelism-config': `${inScript}: the axes of init({ mesh }) and dist.compose()`,
  '--gradient-accumulation-steps': `${inScript}: backward() of several batches before step()`,
  '--gradient-clipping': `${inScript}: optim.clipGradNorm()`,
  '--zero-stage': `${inScript}: dist.zero({ stage })`,
  '--gpu-ids': oneDevice,
  '--tpu': oneDevice,
  '--cpu': 'write --device cpu',
  '--num-cpu-threads-per-process': 'ranks share the cores of their host; start fewer of them',
  '--enable-cpu-affinity': cores,
  '--numa-binding': cores,
  '--bind-cores-to-rank': cores,
  '--bind-core-list': cores,
  '--rdzv-conf': 'use --join-timeout and --last-call',
  '--log-dir': 'logs are in the folder of the run; --run-dir chooses it',
  '--redirects': logs,
  '-r': logs,
  '--tee': logs,
  '-t': logs,
  '--enable-each-rank-log': logs,
  '--logs-specs': logs,
  '--log-line-prefix-template': 'lines begin with the number of the rank',
  '--local-ranks-filter':
    'the lines of all ranks are shown; the logs of one are in the folder of the run',
  '--duplicate-stdout-filters': 'search the logs in the folder of the run',
  '--duplicate-stderr-filters': 'search the logs in the folder of the run',
  '--event-log-handler': '--metrics takes a module of yours, which is given the figures of steps',
  '--quiet': 'what a rank says before it fails is always shown',
  '-q': 'what a rank says before it fails is always shown',
  '--monitor-interval': 'ranks say themselves when they end',
  '--signals-to-handle': 'Ctrl+C and SIGTERM end all ranks',
  '--shutdown-timeout': 'a second Ctrl+C ends ranks at once',
  '--role': 'all ranks have one role',
  '--virtual-local-rank': oneDevice,
  '--local-addr': 'the address is that of the route to host 0',
  '--same-network': 'hosts reach each other by the addresses with which they meet',
  '--start-method': '--ranks chooses between threads and processes',
  '--module': path,
  '-m': path,
  '--run-path': path,
  '--main-training-function': path,
  '--no-python': 'the script is TypeScript or JavaScript',
  '--print-completion': 'there is none',
  '--launcher': otherStart,
  '--launcher-args': otherStart,
  '--ssh-port': otherStart,
  '--mpirun-hostfile': otherStart,
  '--comment': otherStart,
  '--account': otherStart,
  '--vm': otherStart,
  '--env': 'set variables before the command: NAME=value npx shardwise run …',
  '--save-pid': 'the shell knows it: write $! after a command in the background',
  '--autotuning': 'there is none',
  '--elastic-training': elastic,
  '--min-elastic-nodes': elastic,
  '--max-elastic-nodes': elastic,
};

/** The beginnings of options that are refused together. */
export const refusedFamilies: readonly (readonly [prefix: string, reason: string])[] = [
  ['--dynamo-', 'every step is compiled'],
  ['--fsdp-', `${inScript}: the options of dist.fsdp()`],
  ['--megatron-lm-', `${inScript}: dist.tensorParallel(), dist.pipeline() and their options`],
  ['--parallelism-config-', `${inScript}: the axes of init({ mesh }) and dist.compose()`],
  ['--offload-', `${inScript}: dist.OffloadedOptimizer, and the option pages of dist.fsdp()`],
  ['--zero3-', `${inScript}: dist.zero({ stage: 3 }) and checkpoints.save()`],
  ['--fp8-', 'there are no products of 8-bit floats'],
  ['--tpu-', oneDevice],
  ['--no-tpu-', oneDevice],
  ['--aws-', otherStart],
];
