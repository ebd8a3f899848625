import { hydraLaunch, openMpiLaunch } from './mpi.ts';
import { kubeflowLaunch } from './kubeflow.ts';
import { kubernetesLaunch, leaderWorkerSetLaunch } from './kubernetes.ts';
import type { Launch } from './launch.ts';
import { slurmLaunch } from './slurm.ts';
import { torchrunLaunch, torchrunNames } from './torchrun.ts';
import { conflictError, integerOf, MAX_WORLD_SIZE, missingError, textOf } from './variables.ts';

/**
 * Inner launchers come first. An mpirun in a Slurm job inherits SLURM_*, and the pods of Kubeflow's Trainer belong to a
 * Kubernetes Job.
 */
const inner = [
  openMpiLaunch,
  hydraLaunch,
  slurmLaunch,
  kubeflowLaunch,
  leaderWorkerSetLaunch,
  kubernetesLaunch,
] as const;

/**
 * Detects how this process was started from the variables that launchers set. The names that we share with torchrun
 * come first, then the innermost other launcher. Throws a ConfigError that names the variables if they are incomplete,
 * out of range, or contradict each other.
 */
export function detectLaunch(env: NodeJS.ProcessEnv): Launch {
  const torchrun = torchrunLaunch(env);
  // Kubeflow sets RANK for its pods, and also the variables that split a pod into ranks. A pod has no LOCAL_RANK.
  const isPod = textOf(env, torchrunNames.localRank) === undefined;
  if (torchrun !== undefined) return (isPod ? kubeflowLaunch(env) : undefined) ?? torchrun;
  for (const launchOf of inner) {
    const launch = launchOf(env);
    if (launch === undefined) continue;
    checkAgreement(env, launch);
    return launch;
  }
  const { rank, worldSize } = torchrunNames;
  if (textOf(env, rank) !== undefined) throw missingError(rank, [worldSize]);
  if (textOf(env, worldSize) !== undefined) throw missingError(worldSize, [rank]);
  return { kind: 'alone' };
}

/**
 * Throws ConfigError if RANK or WORLD_SIZE differs from the launcher's value. Job files often set one of the two for
 * scripts that read the other from the launcher.
 */
function checkAgreement(env: NodeJS.ProcessEnv, launch: Exclude<Launch, { kind: 'alone' }>): void {
  if (launch.kind === 'node') return;
  for (const key of ['rank', 'worldSize'] as const) {
    const name = torchrunNames[key];
    const value = integerOf(env, name, { min: 0, max: MAX_WORLD_SIZE });
    if (value === undefined || value === launch[key]) continue;
    const found = { name: `${launch.launcher}'s ${key}`, value: launch[key] };
    throw conflictError({ name, value }, found, 'they differ');
  }
}
