import { readFileSync } from 'node:fs';

/** One process for ever: its id may come again, but not with the same start. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the boot of the host to the start of the process. */
  readonly startTicks: number;
}

const DEAD_STATES = new Set(['Z', 'X', 'x']);

export function identityOf(pid: number): ProcessIdentity {
  return { pid, startTicks: readStatus(pid)?.startTicks ?? 0 };
}

/** A stopped process lives; one that has ended does not, even if its parent hasn't noticed. */
export function isAlive({ pid, startTicks }: ProcessIdentity): boolean {
  try {
    const status = readStatus(pid);
    return status !== undefined && status.startTicks === startTicks && !status.hasEnded;
  } catch {
    // That it can't be looked up now, for lack of descriptors say, does not mean that it has ended.
    return true;
  }
}

/** Undefined where there is no such process. Source: proc_pid_stat(5). */
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
