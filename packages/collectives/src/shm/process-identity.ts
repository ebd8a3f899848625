import { readFileSync } from 'node:fs';

/** Identifies a process for ever. Another process may get the same id, but not with the same start. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the boot of the host to the start of the process. */
  readonly startTicks: number;
}

const DEAD_STATES = new Set(['Z', 'X', 'x']);

export function identityOf(pid: number): ProcessIdentity {
  return { pid, startTicks: readStatus(pid)?.startTicks ?? 0 };
}

/**
 * Whether the process is running or stopped. A process that has ended is not alive, even if its parent has not noticed.
 */
export function isAlive({ pid, startTicks }: ProcessIdentity): boolean {
  try {
    const status = readStatus(pid);
    return status !== undefined && status.startTicks === startTicks && !status.hasEnded;
  } catch {
    // The lookup may fail for other reasons, such as a lack of descriptors.
    return true;
  }
}

/** Reads the status of a process. Undefined if there is no such process. Source: proc_pid_stat(5). */
function readStatus(
  pid: number,
): { readonly startTicks: number; readonly hasEnded: boolean } | undefined {
  const text = readIfThere(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field is the program's name in parentheses, which may hold anything.
  const [state = '', ...fields] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { startTicks: Number(fields[18]), hasEnded: DEAD_STATES.has(state) };
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
}
