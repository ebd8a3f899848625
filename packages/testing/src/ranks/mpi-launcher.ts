import { spawnSync } from 'node:child_process';

/** The implementations of MPI that tests use. */
export type MpiName = 'Open MPI' | 'MPICH';

/** How an MPI on this host starts ranks: `command ...arguments program ...`. */
export interface MpiLauncher {
  readonly name: MpiName;
  readonly command: string;
  readonly argumentsFor: (size: number) => readonly string[];
  /** Variables to add to the environment of the command. */
  readonly environment: Readonly<Record<string, string>>;
}

/** An MPI that can start ranks, or why it cannot. */
export type MpiSearch =
  | { readonly name: MpiName; readonly launcher: MpiLauncher }
  | { readonly name: MpiName; readonly missing: string };

/** The names of Debian come first, because they tell one MPI from the other. */
const commands: Record<MpiName, readonly string[]> = {
  'Open MPI': ['mpiexec.openmpi', 'mpirun'],
  MPICH: ['mpiexec.mpich', 'mpiexec.hydra'],
};
const marks: Record<MpiName, RegExp> = { 'Open MPI': /Open MPI|OpenRTE/, MPICH: /HYDRA/ };

/** Looks for the MPIs that can start ranks on this host, and says why others cannot. */
export function findMpis(): readonly MpiSearch[] {
  return names.map((name) => {
    const command = commands[name].find((candidate) => {
      const { stdout } = spawnSync(candidate, ['--version'], { encoding: 'utf8' });
      return marks[name].test(stdout ?? '');
    });
    if (command !== undefined) return { name, launcher: launcherOf(name, command) };
    return { name, missing: `no ${commands[name].join(' or ')} of ${name} in PATH` };
  });
}

const names: readonly MpiName[] = ['Open MPI', 'MPICH'];

function launcherOf(name: MpiName, command: string): MpiLauncher {
  const options = name === 'MPICH' ? [] : ['--oversubscribe', '--bind-to', 'none'];
  return {
    name,
    command,
    argumentsFor: (size) => [...options, '-n', String(size)],
    // Open MPI runs as root only if both variables are set.
    environment: { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' },
  };
}
